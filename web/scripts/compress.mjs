// After `vite build`: removes the files of earlier builds, and writes the compressed form of each file beside it.
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const dist = new URL("../dist", import.meta.url).pathname;
const page = readFileSync(join(dist, "index.html"), "utf8");
const assets = join(dist, "assets");
const names = readdirSync(assets).filter((name) => !name.endsWith(".gz"));

// What neither the page nor a file that is used refers to.
const used = new Set();
const queue = [page];
while (queue.length > 0) {
  const text = queue.pop();
  for (const name of names) {
    if (!used.has(name) && text.includes(name)) {
      used.add(name);
      queue.push(readFileSync(join(assets, name), "utf8"));
    }
  }
}
for (const name of readdirSync(assets)) {
  if (!used.has(name.replace(/\.gz$/, ""))) rmSync(join(assets, name));
}

// The licences of what the page contains, which their authors ask to be passed on.
const root = new URL("..", import.meta.url).pathname;
const packages = Object.keys(JSON.parse(readFileSync(join(root, "package.json"), "utf8")).dependencies);
const texts = packages.map((name) => {
  const folder = join(root, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  if (license !== "MIT") throw new Error(`${name} has the licence ${license}: expected MIT`);
  return `${name} ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
});
writeFileSync(join(dist, "licences.txt"), texts.join("\n\n"));

let total = 0;
for (const path of [join(dist, "index.html"), join(dist, "licences.txt"), ...[...used].map((name) => join(assets, name))]) {
  const packed = gzipSync(readFileSync(path), { level: 9 });
  writeFileSync(`${path}.gz`, packed);
  total += packed.length;
  console.log(`${path.slice(dist.length + 1)}: ${statSync(path).size} bytes, compressed ${packed.length}`);
}
console.log(`total: ${total} bytes compressed`);
