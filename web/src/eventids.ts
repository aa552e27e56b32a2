/** Ids of events: the run of the controller, and a number. */

export function splitId(id: string): [run: string, number: number] {
  const at = id.lastIndexOf("-");
  return [id.slice(0, at), Number(id.slice(at + 1))];
}

/** Whether `id` comes behind `last`: also if it is of another run. */
export function isBehind(id: string, last: string | null): boolean {
  if (last === null) return true;
  const [run, number] = splitId(id);
  const [lastRun, lastNumber] = splitId(last);
  return run !== lastRun || number > lastNumber;
}
