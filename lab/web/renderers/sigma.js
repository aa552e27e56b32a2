import Graph from "graphology";
import Sigma from "sigma";
import { drawn, framesPerSecond, network } from "./network.js";

window.run = async (hasHosts) => {
  const { switches, links, hosts } = network();
  const began = performance.now();
  const graph = new Graph();
  switches.forEach(([x, y], at) => graph.addNode(`s${at}`, { x, y, size: 5, color: "#36c", label: `s${at}` }));
  links.forEach(([a, b, load]) => graph.addEdge(`s${a}`, `s${b}`, { size: 1 + 3 * load, color: "#888" }));
  if (hasHosts) {
    hosts.forEach(([x, y, of], at) => {
      graph.addNode(`h${at}`, { x, y, size: 1.5, color: "#999" });
      graph.addEdge(`h${at}`, `s${of}`, { size: 0.5, color: "#ccc" });
    });
  }
  const camera = new Sigma(graph, document.getElementById("map")).getCamera();
  await drawn();
  const first_drawing_ms = performance.now() - began;
  const move = (at) => camera.setState({ x: 0.5 + 0.2 * Math.sin(at * 2), y: 0.5 + 0.2 * Math.cos(at * 2), ratio: 0.6 });
  return { first_drawing_ms, frames_per_s: await framesPerSecond(move), heap_bytes: performance.memory.usedJSHeapSize };
};
