import { ChevronDown, ChevronUp, Download } from "lucide";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon } from "../../shared/icon.tsx";
import { placeOf, placesIn } from "../text-search.ts";

interface LogToolsProps {
  /** The element that has the log's lines. */
  readonly view: { readonly current: HTMLElement | null };
  readonly slot: string;
  readonly isWrapped: boolean;
  readonly onWrap: (isWrapped: boolean) => void;
}

/** Searches the lines that are shown, breaks long ones or not, and keeps them as a file. */
export function LogTools({ view, slot, isWrapped, onWrap }: LogToolsProps): JSX.Element {
  const [text, setText] = useState("");
  const [found, setFound] = useState("");
  const from = useRef(-1);
  const frame = useRef(0);
  const find = (step: 1 | -1, wanted = text): void => {
    const log = view.current;
    if (log === null || wanted === "") return setFound("");
    const all = textOf(log);
    const place = placeOf(all, wanted, from.current, step);
    if (place === undefined) return setFound("not in the lines that are shown");
    const places = placesIn(all, wanted);
    setFound(`${places.indexOf(place) + 1} of ${places.length}`);
    from.current = place;
    select(log, place, wanted.length);
  };
  return (
    <form
      class="row filters"
      onSubmit={(event) => {
        event.preventDefault();
        find(1);
      }}
    >
      <label>
        <span class="unseen">Search the log</span>
        <input
          type="search"
          placeholder="Search the log"
          value={text}
          onInput={(event) => {
            const wanted = event.currentTarget.value;
            setText(wanted);
            from.current = -1;
            cancelAnimationFrame(frame.current);
            frame.current = requestAnimationFrame(() => find(1, wanted));
          }}
        />
      </label>
      <button type="submit" class="icon" aria-label="Next match">
        <Icon of={ChevronDown} />
      </button>
      <button type="button" class="icon" aria-label="Match before" onClick={() => find(-1)}>
        <Icon of={ChevronUp} />
      </button>
      <span role="status">{found}</span>
      <label>
        <input type="checkbox" checked={isWrapped} onChange={(event) => onWrap(event.currentTarget.checked)} /> Break
        long lines
      </label>
      <button type="button" onClick={() => keep(view.current === null ? "" : `${textOf(view.current)}\n`, slot)}>
        <Icon of={Download} />
        Download
      </button>
    </form>
  );
}

/** The log as a text: its pieces have no line end between them. */
function textOf(log: HTMLElement): string {
  return [...log.children].map((piece) => piece.textContent ?? "").join("\n");
}

/** Selects a part of that text, and shows it. */
function select(log: HTMLElement, from: number, length: number): void {
  const range = document.createRange();
  let at = 0;
  const walker = document.createTreeWalker(log, NodeFilter.SHOW_TEXT);
  let piece = log.firstElementChild;
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    if (node.parentElement !== piece) at += 1;
    piece = node.parentElement;
    const size = node.textContent?.length ?? 0;
    if (from >= at && from < at + size) range.setStart(node, from - at);
    if (from + length > at && from + length <= at + size) {
      range.setEnd(node, from + length - at);
      break;
    }
    at += size;
  }
  const selection = getSelection();
  selection?.removeAllRanges();
  selection?.addRange(range);
  const [match, shown] = [range.getBoundingClientRect(), log.getBoundingClientRect()];
  log.scrollBy(
    match.right > shown.right || match.left < shown.left ? match.left - shown.left - shown.width / 2 : 0,
    match.top - shown.top - shown.height / 2,
  );
}

function keep(text: string, slot: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = `${slot}.log`;
  link.click();
  URL.revokeObjectURL(link.href);
}
