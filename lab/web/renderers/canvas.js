import { drawn, framesPerSecond, network } from "./network.js";

const COLOURS = ["#888", "#6a6", "#ca3", "#c33"];

window.run = async (hasHosts) => {
  const { switches, links, hosts } = network();
  const began = performance.now();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [1600, 900];
  document.getElementById("map").append(canvas);
  const context = canvas.getContext("2d");
  const classes = COLOURS.map((_, load) => links.filter((link) => Math.min(3, Math.floor(link[2] * 4)) === load));
  const lines = (pairs, width, colour) => {
    context.beginPath();
    for (const [from, to] of pairs) {
      context.moveTo(...from);
      context.lineTo(...to);
    }
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  };
  const draw = (dx, dy) => {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(0.8, 0, 0, 0.8, dx, dy);
    if (hasHosts) {
      lines(hosts.map(([x, y, of]) => [[x, y], switches[of]]), 0.5, "#ccc");
      context.fillStyle = "#999";
      for (const [x, y] of hosts) context.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
    classes.forEach((members, load) => lines(members.map(([a, b]) => [switches[a], switches[b]]), 1 + load, COLOURS[load]));
    context.fillStyle = "#36c";
    context.beginPath();
    for (const [x, y] of switches) {
      context.moveTo(x + 5, y);
      context.arc(x, y, 5, 0, 2 * Math.PI);
    }
    context.fill();
    context.fillStyle = "#222";
    context.font = "6px sans-serif";
    switches.forEach(([x, y], at) => context.fillText(`s${at}`, x + 6, y + 2));
  };
  draw(0, 0);
  await drawn();
  const first_drawing_ms = performance.now() - began;
  const move = (at) => draw(100 * Math.sin(at * 2), 100 * Math.cos(at * 2));
  return { first_drawing_ms, frames_per_s: await framesPerSecond(move), heap_bytes: performance.memory.usedJSHeapSize };
};
