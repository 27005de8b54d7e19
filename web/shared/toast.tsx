import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { messageOf } from "./api.ts";

interface Toast {
  readonly nth: number;
  readonly text: string;
  readonly isBad: boolean;
  /** Takes back what was said. */
  readonly undo?: () => void;
}

/** Milliseconds that a toast stays, and that one with a button stays, since its last use by pointer or keyboard (WCAG 2.2.1). */
const staysMs = 6000;
const staysToUndoMs = 20_000;

let count = 0;
const toasts = signal<readonly Toast[]>([]);

/** Says for a while, in a corner of the page, what was done; `undo` adds a button that takes it back. */
export function toast(text: string, undo?: () => void): void {
  show({ text, isBad: false, ...(undo === undefined ? {} : { undo }) });
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

/** A text that is said again takes the place of the one before. */
function show(toast: Omit<Toast, "nth">): void {
  count += 1;
  toasts.value = [...toasts.value.filter(({ text }) => text !== toast.text), { ...toast, nth: count }];
}

function close(nth: number): void {
  toasts.value = toasts.value.filter((each) => each.nth !== nth);
}

/** The list of toasts; a page has one. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-label="What was done">
      {toasts.value.map((toast) => (
        <Shown key={toast.nth} toast={toast} />
      ))}
    </div>
  );
}

/** One that says a failure stays until it is closed; the others stay at least as long as a person is at them. */
function Shown({ toast: { nth, text, isBad, undo } }: { readonly toast: Toast }): JSX.Element {
  const [isUsed, setUsed] = useState(false);
  useLayoutEffect(() => {
    if (isBad || isUsed) return undefined;
    const timer = setTimeout(() => close(nth), undo === undefined ? staysMs : staysToUndoMs);
    return () => clearTimeout(timer);
  }, [isUsed]);
  const used = (): void => setUsed(true);
  const leftUnless =
    (still: ":hover" | ":focus-within") =>
    ({ currentTarget }: { readonly currentTarget: HTMLElement }): void =>
      setUsed(currentTarget.matches(still));
  return (
    <div
      class={isBad ? "toast bad" : "toast"}
      onPointerEnter={used}
      onFocusIn={used}
      onPointerLeave={leftUnless(":focus-within")}
      onFocusOut={leftUnless(":hover")}
    >
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
  );
}
