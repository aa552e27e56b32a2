/** Copies texts to the clipboard, also where the browser has no Clipboard API: on a page that another machine has served over plain HTTP. */

/** Copies the text of an element. If the browser does not permit that, returns `false` and leaves the text selected, so that the user can copy it. */
export async function copyText(element: HTMLElement): Promise<boolean> {
  if (await writeText(element.textContent ?? "")) return true;
  const selection = getSelection();
  selection?.selectAllChildren(element);
  if (!copySelection()) return false;
  selection?.removeAllRanges();
  return true;
}

async function writeText(text: string): Promise<boolean> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard === undefined) return false;
  try {
    await clipboard.writeText(text);
    return true;
  } catch {
    // Not permitted.
    return false;
  }
}

function copySelection(): boolean {
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  }
}
