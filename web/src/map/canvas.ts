/** Draws the map on a canvas, and moves it. */
import type { Point } from "../layout";
import { clean } from "../format";
import type { Edge, HostNode, MapModel, Node } from "./model";

export type Selection = { kind: "switch" | "link" | "host"; id: string } | null;

/** Widths of links by class of load, in pixels. */
export const LOAD_WIDTHS = [1.2, 1.8, 2.6, 3.6, 4.8, 6.2];

const SCALE_MIN = 0.02;
const SCALE_MAX = 4;
/** The largest scale at which everything is shown. */
const SCALE_FIT_MAX = 1.8;
/** Pixels that are kept free around the network. */
const ROOM = 48;
/** Pixels around the canvas that are drawn as well, as a share of its size, so that panning needs no new picture. */
const MARGIN = 0.3;
/** A picture that has taken longer is not drawn again for each frame. */
const FAST_MS = 8;
/** After this time without movement, a picture that was stretched is drawn again. */
const SETTLE_MS = 100;
/** Distance in pixels at which a link or a switch is hit. */
const REACH = 8;

interface Camera {
  x: number;
  y: number;
  scale: number;
}

interface Colours {
  background: string;
  text: string;
  node: string;
  nodeText: string;
  accent: string;
  alarm: string;
  host: string;
  loads: string[];
}

/** What the map does when something is selected or opened. */
export interface MapActions {
  select(selection: Selection): void;
  open(selection: NonNullable<Selection>): void;
}

export class MapCanvas {
  private model: MapModel = { nodes: [], edges: [], hosts: [] };
  private byId = new Map<string, number>();
  private hostById = new Map<string, HostNode>();
  private camera: Camera = { x: 0, y: 0, scale: 1 };
  private picture = document.createElement("canvas");
  private pictureCamera: Camera | null = null;
  private pictureMs = 0;
  private selection: Selection = null;
  private path: string[] = [];
  private colours: Colours;
  private frame = 0;
  private settle = 0;
  private width = 0;
  private height = 0;
  private drag: { x: number; y: number; moved: boolean } | null = null;
  private pinch: number | null = null;
  private pointers = new Map<number, Point>();
  private resizer: ResizeObserver;
  /** Whether the map was moved by hand: it is not fitted again then. */
  private isMoved = false;
  private hasFitted = false;
  /** Height of what covers the lower edge. */
  private covered = 0;

  constructor(
    private canvas: HTMLCanvasElement,
    private actions: MapActions,
  ) {
    this.colours = colours();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(canvas);
    canvas.addEventListener("pointerdown", this.onPointerDown);
    canvas.addEventListener("pointermove", this.onPointerMove);
    canvas.addEventListener("pointerup", this.onPointerUp);
    canvas.addEventListener("pointercancel", this.onPointerUp);
    canvas.addEventListener("wheel", this.onWheel, { passive: false });
    canvas.addEventListener("dblclick", this.onDoubleClick);
  }

  destroy(): void {
    this.resizer.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settle);
  }

  show(model: MapModel): void {
    const isFirst = this.model.nodes.length === 0 && model.nodes.length > 0;
    this.model = model;
    this.byId = new Map(model.nodes.map((node, at) => [node.id, at]));
    this.hostById = new Map(model.hosts.map((host) => [host.id, host]));
    if ((isFirst || !this.isMoved) && model.nodes.length > 0) this.fit();
    this.invalidate();
  }

  /** Draws a path from the first to the last of these: switches and hosts. */
  showPath(ids: string[]): void {
    this.path = ids;
    this.draw();
  }

  select(selection: Selection): void {
    this.selection = selection;
    this.draw();
  }

  /** Reads the colours again, after the theme has changed. */
  updateTheme(): void {
    this.colours = colours();
    this.invalidate();
  }

  /** Shows all switches. */
  fit(): void {
    if (this.width === 0 || this.model.nodes.length === 0) return;
    const all: Point[] = [...this.model.nodes, ...this.model.hosts];
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { x, y } of all) [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
    const fitting = Math.min((this.width - 2 * ROOM) / Math.max(1, right - left), (this.height - 2 * ROOM - this.covered) / Math.max(1, bottom - top), SCALE_FIT_MAX);
    const scale = Math.max(SCALE_MIN, fitting);
    this.camera = { x: (left + right) / 2, y: (top + bottom) / 2 + this.covered / 2 / scale, scale };
    this.hasFitted = true;
    this.isMoved = false;
    this.invalidate();
  }

  /** Keeps switches off the lower edge, where the legend is. */
  keepFree(height: number): void {
    if (height === this.covered) return;
    this.covered = height;
    if (!this.isMoved) this.fit();
  }

  /** Shows all switches when the next model is shown. */
  fitNext(): void {
    this.isMoved = false;
  }

  zoom(factor: number, at: Point = { x: this.width / 2, y: this.height / 2 }): void {
    const before = this.toWorld(at);
    this.camera.scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, this.camera.scale * factor));
    const after = this.toWorld(at);
    this.camera.x += before.x - after.x;
    this.camera.y += before.y - after.y;
    this.isMoved = true;
    this.draw();
  }

  /** Moves the map by pixels. */
  pan(dx: number, dy: number): void {
    this.camera.x -= dx / this.camera.scale;
    this.camera.y -= dy / this.camera.scale;
    this.isMoved = true;
    this.draw();
  }

  /** Shows a switch or host in the middle. */
  centre(id: string): void {
    const point = this.pointOf(id);
    if (point === null) return;
    this.camera = { x: point.x, y: point.y, scale: Math.max(this.camera.scale, 0.8) };
    this.isMoved = true;
    this.draw();
  }

  /** The switch that is next in a direction, from the selected one. */
  next(dx: number, dy: number): string | null {
    const from = this.selection === null ? null : this.pointOf(this.selection.id);
    if (from === null) return this.model.nodes[0]?.id ?? null;
    let best: [number, string] | null = null;
    for (const node of this.model.nodes) {
      const [x, y] = [node.x - from.x, node.y - from.y];
      const along = x * dx + y * dy;
      const across = Math.abs(x * dy - y * dx);
      if (along <= 1 || across > along * 1.5) continue;
      const cost = along + 2 * across;
      if (best === null || cost < best[0]) best = [cost, node.id];
    }
    return best?.[1] ?? null;
  }

  private pointOf(id: string): Point | null {
    const at = this.byId.get(id);
    return (at === undefined ? this.hostById.get(id) : this.model.nodes[at]) ?? null;
  }

  private toScreen({ x, y }: Point): Point {
    return { x: (x - this.camera.x) * this.camera.scale + this.width / 2, y: (y - this.camera.y) * this.camera.scale + this.height / 2 };
  }

  private toWorld({ x, y }: Point): Point {
    return { x: (x - this.width / 2) / this.camera.scale + this.camera.x, y: (y - this.height / 2) / this.camera.scale + this.camera.y };
  }

  private resize(): void {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    if (!this.hasFitted || !this.isMoved) this.fit();
    this.invalidate();
  }

  private invalidate(): void {
    this.pictureCamera = null;
    this.draw();
  }

  private draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  private drawNow(): void {
    const context = this.canvas.getContext("2d");
    if (context === null || this.width === 0) return;
    if (this.needsPicture()) this.paint();
    const picture = this.pictureCamera as Camera;
    const stretch = this.camera.scale / picture.scale;
    if (stretch !== 1) this.paintLater();
    const ratio = devicePixelRatio;
    const corner = this.toScreen({
      x: picture.x - (this.width * (0.5 + MARGIN)) / picture.scale,
      y: picture.y - (this.height * (0.5 + MARGIN)) / picture.scale,
    });
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colours.background;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.picture, Math.round(corner.x * ratio), Math.round(corner.y * ratio), this.picture.width * stretch, this.picture.height * stretch);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawPath(context);
    this.drawSelection(context);
  }

  /** Whether the last picture cannot be shown again, moved or stretched. */
  private needsPicture(): boolean {
    const last = this.pictureCamera;
    if (last === null) return true;
    const isSame = last.x === this.camera.x && last.y === this.camera.y && last.scale === this.camera.scale;
    if (isSame) return false;
    if (this.pictureMs < FAST_MS) return true;
    const [dx, dy] = [Math.abs(last.x - this.camera.x), Math.abs(last.y - this.camera.y)];
    const stretch = this.camera.scale / last.scale;
    const isCovered = dx * last.scale <= this.width * MARGIN && dy * last.scale <= this.height * MARGIN;
    return stretch === 1 ? !isCovered : stretch < 0.4 || stretch > 3;
  }

  private paintLater(): void {
    clearTimeout(this.settle);
    this.settle = window.setTimeout(() => this.invalidate(), SETTLE_MS);
  }

  /** Draws the network into the picture. */
  private paint(): void {
    const began = performance.now();
    const ratio = devicePixelRatio;
    const [width, height] = [this.width * (1 + 2 * MARGIN), this.height * (1 + 2 * MARGIN)];
    const [pixelsX, pixelsY] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.picture.width !== pixelsX || this.picture.height !== pixelsY) [this.picture.width, this.picture.height] = [pixelsX, pixelsY];
    const context = this.picture.getContext("2d") as CanvasRenderingContext2D;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, pixelsX, pixelsY);
    context.setTransform(ratio, 0, 0, ratio, this.width * MARGIN * ratio, this.height * MARGIN * ratio);
    const area = { left: -this.width * MARGIN, right: this.width * (1 + MARGIN), top: -this.height * MARGIN, bottom: this.height * (1 + MARGIN) };
    const points = this.model.nodes.map((node) => this.toScreen(node));
    const isNear = (point: Point) => point.x > area.left - 20 && point.x < area.right + 20 && point.y > area.top - 20 && point.y < area.bottom + 20;
    this.paintHosts(context, points, isNear);
    this.paintEdges(context, points, isNear);
    this.paintNodes(context, points, isNear);
    this.pictureCamera = { ...this.camera };
    this.pictureMs = performance.now() - began;
  }

  private paintEdges(context: CanvasRenderingContext2D, points: Point[], isNear: (point: Point) => boolean): void {
    const groups = new Map<string, Edge[]>();
    for (const edge of this.model.edges) {
      const key = `${edge.isDrained ? 1 : 0}${edge.load}`;
      const group = groups.get(key);
      if (group) group.push(edge);
      else groups.set(key, [edge]);
    }
    const thin = this.camera.scale < 0.15 ? 0.5 : this.camera.scale < 0.4 ? 0.75 : 1;
    for (const key of [...groups.keys()].sort()) {
      const group = groups.get(key) as Edge[];
      const load = Number(key[1]);
      context.beginPath();
      for (const edge of group) {
        const [a, b] = this.ends(edge, points[edge.a] as Point, points[edge.b] as Point);
        if (!isNear(a) && !isNear(b) && !crosses(a, b, this.width, this.height)) continue;
        context.moveTo(a.x, a.y);
        context.lineTo(b.x, b.y);
      }
      context.setLineDash(key[0] === "1" ? [6, 6] : []);
      context.lineWidth = (LOAD_WIDTHS[load] ?? 1) * thin;
      context.strokeStyle = this.colours.loads[load] ?? this.colours.text;
      context.stroke();
    }
    context.setLineDash([]);
  }

  /** Ends of a link on the screen; links of the same two switches are side by side. */
  private ends(edge: Edge, a: Point, b: Point): [Point, Point] {
    if (edge.lane === 0) return [a, b];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const shift = (edge.lane * 9 * Math.min(1, this.camera.scale)) / length;
    const [x, y] = [-(b.y - a.y) * shift, (b.x - a.x) * shift];
    return [{ x: a.x + x, y: a.y + y }, { x: b.x + x, y: b.y + y }];
  }

  private nodeRadius(): number {
    return Math.min(13, Math.max(1.5, 13 * this.camera.scale ** 0.7));
  }

  private paintNodes(context: CanvasRenderingContext2D, points: Point[], isNear: (point: Point) => boolean): void {
    const radius = this.nodeRadius();
    const isDetailed = radius > 6;
    context.fillStyle = this.colours.node;
    context.beginPath();
    for (const point of points) {
      if (!isNear(point)) continue;
      if (isDetailed) context.roundRect(point.x - radius * 1.2, point.y - radius * 0.85, radius * 2.4, radius * 1.7, radius * 0.4);
      else context.rect(point.x - radius, point.y - radius, radius * 2, radius * 2);
    }
    context.fill();
    if (isDetailed) this.paintArrows(context, points.filter(isNear), radius);
    this.paintAlarms(context, points, radius);
    this.paintLabels(context, points, isNear, radius);
  }

  /** Two arrows, as on symbols of switches. */
  private paintArrows(context: CanvasRenderingContext2D, points: Point[], radius: number): void {
    const [x, y, head] = [radius * 0.65, radius * 0.28, radius * 0.25];
    context.strokeStyle = this.colours.nodeText;
    context.lineWidth = Math.max(1, radius / 9);
    context.beginPath();
    for (const point of points) {
      for (const side of [-1, 1]) {
        const [tipX, lineY] = [point.x + side * x, point.y + side * y];
        context.moveTo(point.x - side * x, lineY);
        context.lineTo(tipX, lineY);
        context.moveTo(tipX - side * head, lineY - head);
        context.lineTo(tipX, lineY);
        context.lineTo(tipX - side * head, lineY + head);
      }
    }
    context.stroke();
  }

  private paintAlarms(context: CanvasRenderingContext2D, points: Point[], radius: number): void {
    const size = Math.max(5, radius * 0.6);
    this.model.nodes.forEach((node, at) => {
      if (node.alarms === 0) return;
      const { x, y } = points[at] as Point;
      const [cx, cy] = [x + radius * 1.1, y - radius * 0.85];
      context.fillStyle = this.colours.alarm;
      context.beginPath();
      context.arc(cx, cy, size, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = this.colours.background;
      context.font = `700 ${Math.round(size * 1.6)}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText("!", cx, cy + 0.5);
    });
  }

  /** Labels that do not cover others, first those of switches with alarms and with many hosts. */
  private paintLabels(context: CanvasRenderingContext2D, points: Point[], isNear: (point: Point) => boolean, radius: number): void {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    context.fillStyle = this.colours.text;
    context.strokeStyle = this.colours.background;
    context.lineWidth = 3;
    context.lineJoin = "round";
    const taken = new Set<string>();
    const order = this.model.nodes.map((_, at) => at).filter((at) => isNear(points[at] as Point));
    order.sort((a, b) => rank(this.model.nodes[b] as Node) - rank(this.model.nodes[a] as Node));
    for (const at of order) {
      const label = clean((this.model.nodes[at] as Node).label, 20);
      const { x, y } = points[at] as Point;
      if (!reserve(taken, x - label.length * 3.6, y + radius, label.length * 7.2, 14)) continue;
      context.strokeText(label, x, y + radius + 2);
      context.fillText(label, x, y + radius + 2);
    }
  }

  private paintHosts(context: CanvasRenderingContext2D, points: Point[], isNear: (point: Point) => boolean): void {
    const radius = Math.min(5, Math.max(1.5, 5 * Math.sqrt(this.camera.scale)));
    const screen = this.model.hosts.map((host) => this.toScreen(host));
    context.strokeStyle = this.colours.loads[0] ?? this.colours.host;
    context.lineWidth = 0.8;
    context.beginPath();
    this.model.hosts.forEach((host, at) => {
      const [from, to] = [screen[at] as Point, points[host.at] as Point];
      if (!isNear(from)) return;
      context.moveTo(from.x, from.y);
      context.lineTo(to.x, to.y);
    });
    context.stroke();
    for (const isQuarantined of [false, true]) {
      context.fillStyle = isQuarantined ? this.colours.alarm : this.colours.host;
      context.beginPath();
      this.model.hosts.forEach((host, at) => {
        const { x, y } = screen[at] as Point;
        if (host.isQuarantined !== isQuarantined || !isNear({ x, y })) return;
        if (radius < 3) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
        else {
          context.moveTo(x + radius, y);
          context.arc(x, y, radius, 0, 2 * Math.PI);
        }
      });
      context.fill();
    }
    if (this.camera.scale < 0.9) return;
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = this.colours.text;
    const taken = new Set<string>();
    this.model.hosts.forEach((host, at) => {
      const { x, y } = screen[at] as Point;
      const isLeft = x < (points[host.at] as Point).x - 1;
      const label = clean(host.label, 20);
      const width = label.length * 5.6;
      if (!isNear({ x, y }) || !reserve(taken, isLeft ? x - 8 - width : x + 8, y - 6, width, 12)) return;
      context.textAlign = isLeft ? "right" : "left";
      context.fillText(label, isLeft ? x - 8 : x + 8, y);
    });
  }

  private drawPath(context: CanvasRenderingContext2D): void {
    const points = this.path.flatMap((id) => this.pointOf(id) ?? []).map((point) => this.toScreen(point));
    if (points.length === 0) return;
    context.lineJoin = "round";
    context.lineCap = "round";
    context.beginPath();
    points.forEach(({ x, y }, at) => (at === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
    for (const [width, colour] of [[11, this.colours.background], [5, this.colours.accent]] as const) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.stroke();
    }
    context.font = "700 11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    points.forEach(({ x, y }, at) => {
      context.fillStyle = this.colours.accent;
      context.beginPath();
      context.arc(x, y, 9, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = this.colours.background;
      context.fillText(String(at + 1), x, y + 0.5);
    });
  }

  private drawSelection(context: CanvasRenderingContext2D): void {
    if (this.selection === null) return;
    context.strokeStyle = this.colours.accent;
    context.lineWidth = 3;
    if (this.selection.kind === "link") {
      const edge = this.model.edges.find((it) => it.id === this.selection?.id);
      if (!edge) return;
      const [from, to] = [this.model.nodes[edge.a], this.model.nodes[edge.b]];
      if (from === undefined || to === undefined) return;
      const [a, b] = this.ends(edge, this.toScreen(from), this.toScreen(to));
      context.lineWidth = (LOAD_WIDTHS[edge.load] ?? 1) + 4;
      context.globalAlpha = 0.6;
      context.beginPath();
      context.moveTo(a.x, a.y);
      context.lineTo(b.x, b.y);
      context.stroke();
      context.globalAlpha = 1;
      return;
    }
    const point = this.pointOf(this.selection.id);
    if (point === null) return;
    const { x, y } = this.toScreen(point);
    const radius = this.selection.kind === "host" ? 9 : this.nodeRadius() * 1.2 + 6;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
  }

  /** What is drawn at a place of the canvas. */
  private at(place: Point): Selection {
    const reach = Math.max(REACH, this.nodeRadius() + 3);
    const hit = <T extends Point & { id: string }>(all: T[], within: number): string | null => {
      let best: [number, string] | null = null;
      for (const one of all) {
        const { x, y } = this.toScreen(one);
        const distance = Math.hypot(x - place.x, y - place.y);
        if (distance <= within && (best === null || distance < best[0])) best = [distance, one.id];
      }
      return best?.[1] ?? null;
    };
    const node = hit(this.model.nodes, reach);
    if (node !== null) return { kind: "switch", id: node };
    const host = hit(this.model.hosts, REACH);
    if (host !== null) return { kind: "host", id: host };
    const points = this.model.nodes.map((it) => this.toScreen(it));
    let best: [number, string] | null = null;
    for (const edge of this.model.edges) {
      const [a, b] = this.ends(edge, points[edge.a] as Point, points[edge.b] as Point);
      const distance = distanceToLine(place, a, b);
      if (distance <= REACH && (best === null || distance < best[0])) best = [distance, edge.id];
    }
    return best === null ? null : { kind: "link", id: best[1] };
  }

  private placeOf(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private onPointerDown = (event: PointerEvent): void => {
    this.pointers.set(event.pointerId, this.placeOf(event));
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { ...this.placeOf(event), moved: false };
    this.pinch = this.spread();
  };

  /** Distance between two fingers. */
  private spread(): number | null {
    const [a, b] = [...this.pointers.values()];
    return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : null;
  }

  private onPointerMove = (event: PointerEvent): void => {
    if (this.drag === null || !this.pointers.has(event.pointerId)) return;
    const place = this.placeOf(event);
    this.pointers.set(event.pointerId, place);
    const spread = this.spread();
    if (spread !== null && this.pinch !== null) {
      this.zoom(spread / this.pinch, place);
      this.pinch = spread;
      this.drag = { ...place, moved: true };
      return;
    }
    const [dx, dy] = [place.x - this.drag.x, place.y - this.drag.y];
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return;
    this.pan(dx, dy);
    this.drag = { ...place, moved: true };
  };

  private onPointerUp = (event: PointerEvent): void => {
    this.pointers.delete(event.pointerId);
    const isClick = this.drag !== null && !this.drag.moved && event.type === "pointerup";
    if (this.pointers.size === 0) this.drag = null;
    this.pinch = null;
    if (isClick) this.actions.select(this.at(this.placeOf(event)));
  };

  private onDoubleClick = (event: MouseEvent): void => {
    const found = this.at(this.placeOf(event));
    if (found !== null) this.actions.open(found);
  };

  private onWheel = (event: WheelEvent): void => {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * 0.0015), this.placeOf(event));
  };
}

function rank(node: Node): number {
  return node.alarms * 10_000 + node.hosts;
}

/** Reserves the cells of a label; `false` if one of them is taken. */
function reserve(taken: Set<string>, x: number, y: number, width: number, height: number): boolean {
  const cells: string[] = [];
  for (let column = Math.floor(x / 12); column <= Math.floor((x + width) / 12); column += 1) {
    for (let row = Math.floor(y / 8); row <= Math.floor((y + height) / 8); row += 1) cells.push(`${column} ${row}`);
  }
  if (cells.some((cell) => taken.has(cell))) return false;
  for (const cell of cells) taken.add(cell);
  return true;
}

/** Whether a line between two points outside may cross the canvas. */
function crosses(a: Point, b: Point, width: number, height: number): boolean {
  const isBeside = (a.x < 0 && b.x < 0) || (a.x > width && b.x > width) || (a.y < 0 && b.y < 0) || (a.y > height && b.y > height);
  return !isBeside;
}

function distanceToLine(place: Point, a: Point, b: Point): number {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = dx * dx + dy * dy || 1;
  const along = Math.min(1, Math.max(0, ((place.x - a.x) * dx + (place.y - a.y) * dy) / length));
  return Math.hypot(place.x - a.x - along * dx, place.y - a.y - along * dy);
}

/** The colours of the theme, which the style sheet has. */
function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    background: of("canvas"),
    text: of("text"),
    node: of("node"),
    nodeText: of("node-text"),
    accent: of("accent"),
    alarm: of("alarm"),
    host: of("host"),
    loads: [0, 1, 2, 3, 4, 5].map((at) => of(`load-${at}`)),
  };
}
