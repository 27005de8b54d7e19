import { indexAfter, knownLines } from "../resume.ts";

/** Older lines leave the page; the file has them. */
export const keptLines = 2000;
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
  /** The last lines that are shown. */
  #last: string[] = [];
  /** Lines come again from before: whether they reach those that are shown is not known yet. */
  #isAgain = false;
  /** They do not: what is shown leaves the page with the next lines. */
  #isOld = false;
  /** Where a person has scrolled to, as long as the lines that were there are not. */
  #place: number | undefined;

  /** Empties the element. */
  constructor(view: HTMLElement) {
    this.#view = view;
    view.textContent = "";
  }

  /** The lines come again from before: those after the shown ones are added to them. */
  begin(): void {
    this.#pending = [];
    this.#isAgain = true;
    this.#isOld = false;
  }

  /** The shown lines have not come again: those that have come, or the next ones, take their place. */
  giveUp(): void {
    this.#isOld ||= this.#isAgain;
    this.#isAgain = false;
  }

  /** Shown by the next `draw`. */
  add(line: string): void {
    this.#pending.push(line);
    // A tab in the background draws nothing for hours.
    if (this.#pending.length >= 2 * keptLines) this.#pending = this.#pending.slice(-keptLines);
  }

  /** Follows the end of the log unless a person has scrolled up. */
  draw(): void {
    if (this.#isAgain && !this.#goesOn()) return;
    const view = this.#view;
    const follows = view.scrollHeight - view.scrollTop - view.clientHeight < nearEnd;
    const lines = this.#pending.slice(-keptLines);
    if (this.#isOld && lines.length > 0) {
      if (!follows) this.#place = view.scrollTop;
      this.#clear();
      this.#isOld = false;
    }
    // Lines between these and those that are shown have left, or would.
    if (lines.length === keptLines) this.#clear();
    this.#pending = [];
    this.#last = [...this.#last, ...lines].slice(-knownLines);
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
    if (this.#place !== undefined) {
      view.scrollTop = this.#place;
      if (view.scrollTop >= this.#place - 1) this.#place = undefined;
    } else if (follows) view.scrollTop = view.scrollHeight;
  }

  /** Whether it is known where the lines that have come belong. */
  #goesOn(): boolean {
    const next = indexAfter(this.#pending, this.#last);
    if (next === undefined && this.#pending.length < keptLines) return false;
    if (next === undefined) this.giveUp();
    else this.#pending = this.#pending.slice(next);
    this.#isAgain = false;
    return true;
  }

  #clear(): void {
    this.#view.textContent = "";
    this.#last = [];
    this.#counts.length = 0;
  }
}
