import { afterEach, expect, test, vi } from "vitest";
import { copyText } from "./clipboard";

const element = { textContent: "sluice emu" } as HTMLElement;
const selection = { selectAllChildren: vi.fn(), removeAllRanges: vi.fn() };
const execCommand = vi.fn<(command: string) => boolean>();

function stub(clipboard: { writeText: (text: string) => Promise<void> } | undefined): void {
  vi.stubGlobal("navigator", { clipboard });
  vi.stubGlobal("document", { execCommand });
  vi.stubGlobal("getSelection", () => selection);
}

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetAllMocks();
});

test("a text is copied by the Clipboard API, and what was selected stays selected", async () => {
  const writeText = vi.fn(() => Promise.resolve());
  stub({ writeText });
  expect(await copyText(element)).toBe(true);
  expect(writeText).toHaveBeenCalledWith("sluice emu");
  expect(selection.selectAllChildren).not.toHaveBeenCalled();
});

test("without the Clipboard API, or if it refuses, the text is selected and copied", async () => {
  execCommand.mockReturnValue(true);
  for (const clipboard of [undefined, { writeText: () => Promise.reject(new Error("not permitted")) }]) {
    stub(clipboard);
    expect(await copyText(element)).toBe(true);
    expect(execCommand).toHaveBeenLastCalledWith("copy");
    expect(selection.selectAllChildren).toHaveBeenLastCalledWith(element);
  }
  expect(selection.removeAllRanges).toHaveBeenCalledTimes(2);
});

test("if the browser does not permit copying, the text stays selected", async () => {
  stub(undefined);
  execCommand.mockReturnValueOnce(false);
  execCommand.mockImplementationOnce(() => {
    throw new Error("not permitted");
  });
  expect([await copyText(element), await copyText(element)]).toEqual([false, false]);
  expect(selection.selectAllChildren).toHaveBeenCalledTimes(2);
  expect(selection.removeAllRanges).not.toHaveBeenCalled();
});
