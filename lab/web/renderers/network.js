/** 1 000 switches in a grid, 4 000 links, most of them short, ten hosts around each switch; and frames per second of an animation. */
export function network() {
  let seed = 7;
  const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
  const switches = Array.from({ length: 1000 }, (_, at) => [(at % 40) * 50 + random() * 10, Math.floor(at / 40) * 50 + random() * 10]);
  const links = [];
  const seen = new Set();
  while (links.length < 4000) {
    const a = Math.floor(random() * 1000);
    const b = (a + [1, 40, 41, 2, 80][Math.floor(random() * 5)]) % 1000;
    if (a === b || seen.has(`${a}-${b}`)) continue;
    seen.add(`${a}-${b}`);
    links.push([a, b, random()]);
  }
  const hosts = Array.from({ length: 10_000 }, (_, at) => {
    const angle = (Math.floor(at / 1000) / 10) * 2 * Math.PI;
    const [x, y] = switches[at % 1000];
    return [x + 8 * Math.cos(angle), y + 8 * Math.sin(angle), at % 1000];
  });
  return { switches, links, hosts };
}

export function drawn() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}

export function framesPerSecond(step, ms = 3000) {
  let count = 0;
  const began = performance.now();
  return new Promise((resolve) => {
    const frame = () => {
      const passed = performance.now() - began;
      step(passed / 1000);
      count += 1;
      if (passed < ms) requestAnimationFrame(frame);
      else resolve((count * 1000) / (performance.now() - began));
    };
    requestAnimationFrame(frame);
  });
}
