import cytoscape from "cytoscape";
import { framesPerSecond, network } from "./network.js";

const STYLE = [
  { selector: "node", style: { width: 8, height: 8, "background-color": "#36c" } },
  { selector: "node[label]", style: { label: "data(label)", "font-size": 6 } },
  { selector: "edge", style: { width: "data(load)", "curve-style": "haystack", "line-color": "#888" } },
];

window.run = async (hasHosts, hasWebGl) => {
  const { switches, links, hosts } = network();
  const began = performance.now();
  const elements = [
    ...switches.map(([x, y], at) => ({ data: { id: `s${at}`, label: `s${at}` }, position: { x, y } })),
    ...links.map(([a, b, load], at) => ({ data: { id: `e${at}`, source: `s${a}`, target: `s${b}`, load: 1 + 3 * load } })),
  ];
  if (hasHosts) {
    hosts.forEach(([x, y, of], at) => {
      elements.push({ data: { id: `h${at}` }, position: { x, y } }, { data: { id: `he${at}`, source: `h${at}`, target: `s${of}`, load: 0.5 } });
    });
  }
  const map = cytoscape({ container: document.getElementById("map"), elements, layout: { name: "preset" }, pixelRatio: 1, style: STYLE, renderer: { name: "canvas", webgl: hasWebGl } });
  const rendered = () => new Promise((resolve) => map.one("render", resolve));
  await rendered();
  const first_drawing_ms = performance.now() - began;
  const frames_per_s = await framesPerSecond((at) => map.pan({ x: 100 * Math.sin(at * 2), y: 100 * Math.cos(at * 2) }));
  // With WebGL, Cytoscape.js says nothing of later drawings.
  if (hasWebGl) return { first_drawing_ms, frames_per_s, heap_bytes: performance.memory.usedJSHeapSize };
  const changed = performance.now();
  map.batch(() => map.edges().forEach((edge) => edge.data("load", 1 + Math.random() * 3)));
  await rendered();
  return { first_drawing_ms, frames_per_s, new_loads_ms: performance.now() - changed, heap_bytes: performance.memory.usedJSHeapSize };
};
