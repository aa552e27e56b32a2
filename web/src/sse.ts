/** Server-sent events, read with `fetch`, which can send a token. */

export interface SseMessage {
  event: string;
  data: string;
  id: string;
}

/** Splits what was received into messages. */
export class SseParser {
  private rest = "";

  push(text: string): SseMessage[] {
    this.rest += text;
    const messages: SseMessage[] = [];
    for (;;) {
      const end = this.rest.indexOf("\n\n");
      if (end < 0) return messages;
      const block = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + 2);
      messages.push(message(block));
    }
  }
}

function message(block: string): SseMessage {
  const found: SseMessage = { event: "", data: "", id: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "event") found.event = value;
    if (name === "id") found.id = value;
    if (name === "data") found.data += found.data === "" ? value : `\n${value}`;
  }
  return found;
}

/** Passes each message to `receive` until the stream ends or `signal` is aborted. */
export async function readStream(response: Response, receive: (message: SseMessage) => void): Promise<void> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parser.push(decoder.decode(value, { stream: true })).forEach(receive);
  }
}
