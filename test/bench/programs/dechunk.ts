/** Takes an HTTP/1.1 answer apart: status first, then the text of its body. Trusts the framing; ours to test with. */
export class AnswerReader {
  readonly #onText: (text: string) => void;
  #head = "";
  #rest = "";
  /** The rest of the present chunk with its line end, or of a body of known length, in bytes. */
  #left = 0;
  #isChunked = false;
  status = 0;
  isEnded = false;

  constructor(onText: (text: string) => void) {
    this.#onText = onText;
  }

  push(bytes: string): void {
    if (this.status !== 0) return this.#body(bytes);
    this.#head += bytes;
    const end = this.#head.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = this.#head.slice(0, end).toLowerCase();
    const body = this.#head.slice(end + 4);
    this.#head = "";
    this.status = Number(head.slice(9, 12));
    this.#isChunked = head.includes("transfer-encoding: chunked");
    this.#left = Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0);
    this.isEnded = !this.#isChunked && this.#left === 0;
    if (body !== "") this.#body(body);
  }

  #body(bytes: string): void {
    if (!this.#isChunked) {
      this.#left -= bytes.length;
      this.#onText(bytes);
      this.isEnded = this.#left <= 0;
      return;
    }
    let text = this.#rest === "" ? bytes : this.#rest + bytes;
    this.#rest = "";
    while (text !== "") {
      if (this.#left > 0) {
        // Two of what is left are the line end, which is not body.
        const body = text.slice(0, Math.max(0, this.#left - 2));
        const taken = Math.min(text.length, this.#left);
        this.#left -= taken;
        if (body !== "") this.#onText(body);
        text = text.slice(taken);
        continue;
      }
      const line = text.indexOf("\r\n");
      if (line < 0) {
        this.#rest = text;
        return;
      }
      const size = Number.parseInt(text.slice(0, line), 16);
      text = text.slice(line + 2);
      if (size === 0) {
        this.isEnded = true;
        return;
      }
      this.#left = size + 2;
    }
  }
}
