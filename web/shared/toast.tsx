import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { messageOf } from "./api.ts";

interface Toast {
  readonly nth: number;
  readonly text: string;
  readonly isBad: boolean;
  /** Takes back what was said. */
  readonly undo?: () => void;
}

/** Milliseconds that a toast stays; one that says a failure stays until it is closed. */
const staysMs = 6000;
const shownAtOnce = 3;

let count = 0;
const toasts = signal<readonly Toast[]>([]);

/** Says for a while, in a corner of the page, what was done; `undo` adds a button that takes it back. */
export function toast(text: string, undo?: () => void): void {
  const nth = show({ text, isBad: false, ...(undo === undefined ? {} : { undo }) });
  setTimeout(() => close(nth), staysMs);
}

/** Does something on the server, and says that it has failed where it has. */
export async function acting(act: () => Promise<unknown>, says: string, undo?: () => void): Promise<void> {
  try {
    await act();
    toast(says, undo);
  } catch (error) {
    show({ text: messageOf(error), isBad: true });
  }
}

function show(toast: Omit<Toast, "nth">): number {
  count += 1;
  toasts.value = [...toasts.value, { ...toast, nth: count }].slice(-shownAtOnce);
  return count;
}

function close(nth: number): void {
  toasts.value = toasts.value.filter((each) => each.nth !== nth);
}

/** The list of toasts; a page has one. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-label="What was done">
      {toasts.value.map(({ nth, text, isBad, undo }) => (
        <div key={nth} class={isBad ? "toast bad" : "toast"}>
          <span>{text}</span>
          {undo !== undefined && (
            <button
              type="button"
              class="ghost"
              onClick={() => {
                close(nth);
                undo();
              }}
            >
              Undo
            </button>
          )}
          <button type="button" class="ghost" aria-label="Close the message" onClick={() => close(nth)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
