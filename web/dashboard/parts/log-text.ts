/** Older lines leave the page; the file has them. */
const keptLines = 2000;
/** A piece is laid out anew when a line is added to it, and leaves the page whole. */
const pieceLines = 50;
/** So near its end, in pixels, a log counts as followed. */
const nearEnd = 40;

/**
 * The last lines of a log within an element, written past the framework: a thousand lines a second are one change of each
 * frame. Blocks of a few lines, each with a layout of its own: in one text of 2000 lines each change would break all of
 * them into rows anew.
 */
export class LogText {
  readonly #view: HTMLElement;
  #pending: string[] = [];
  /** The lines of each piece, oldest first. */
  readonly #counts: number[] = [];

  /** Empties the element. */
  constructor(view: HTMLElement) {
    this.#view = view;
    view.textContent = "";
  }

  /** Shown by the next `draw`. */
  add(line: string): void {
    this.#pending.push(line);
    // A tab in the background draws nothing for hours.
    if (this.#pending.length >= 2 * keptLines) this.#pending = this.#pending.slice(-keptLines);
  }

  /** Follows the end of the log unless a person has scrolled up. */
  draw(): void {
    const view = this.#view;
    const follows = view.scrollHeight - view.scrollTop - view.clientHeight < nearEnd;
    const lines = this.#pending.slice(-keptLines);
    // Lines between these and those that are shown have left, or would.
    if (lines.length === keptLines) {
      view.textContent = "";
      this.#counts.length = 0;
    }
    this.#pending = [];
    for (let at = 0; at < lines.length;) {
      const count = this.#counts.at(-1) ?? pieceLines;
      const isNew = count === pieceLines;
      if (isNew) view.append(document.createElement("span"));
      const part = lines.slice(at, at + (isNew ? pieceLines : pieceLines - count));
      view.lastElementChild?.append(`${isNew ? "" : "\n"}${part.join("\n")}`);
      this.#counts.push((isNew ? 0 : (this.#counts.pop() ?? 0)) + part.length);
      at += part.length;
    }
    while ((this.#counts.length - 1) * pieceLines > keptLines) {
      this.#counts.shift();
      view.firstElementChild?.remove();
    }
    if (follows) view.scrollTop = view.scrollHeight;
  }
}
