import { signal } from "@preact/signals";
import type { Screen } from "./keep-reading.ts";
import { shareOf, type Share, type ShownWindow } from "./share.ts";

type Said = { readonly here: ShownWindow } | { readonly gone: string } | { readonly who: true };

/** Between two times that a window says it is there, in milliseconds; one that was not heard for three of them is gone. */
const heardMs = 5000;

export const share = signal<Share>({ events: true, log: true });
let own: ShownWindow = { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), hasLog: false, usedAt: Date.now() };
let channel: BroadcastChannel | undefined;
const others = new Map<string, { readonly window: ShownWindow; readonly seenAt: number }>();
const changes = new EventTarget();

/** Has the windows of this browser divide its connections among them. Once for the page. */
export function shareConnections(): void {
  channel = new BroadcastChannel("berth-dashboard");
  channel.addEventListener("message", ({ data }: MessageEvent<Said>) => hear(data));
  for (const type of ["focus", "pointerdown", "keydown", "pageshow"]) addEventListener(type, turnTo);
  addEventListener("pagehide", () => tell({ gone: own.id }));
  document.addEventListener("visibilitychange", () => (document.hidden ? tell({ gone: own.id }) : turnTo()));
  setInterval(() => change({}), heardMs);
  tell({ who: true });
  change({});
}

/** Whether this window shows a log. */
export function showsLog(hasLog: boolean): void {
  change({ hasLog });
}

/** The screen for one of this window's streams: hidden too where other windows have the connections. */
export function screenOf(stream: keyof Share): Screen {
  return {
    get hidden() {
      return document.hidden || !share.peek()[stream];
    },
    addEventListener(type, listener) {
      document.addEventListener(type, listener);
      changes.addEventListener(type, listener);
    },
    removeEventListener(type, listener) {
      document.removeEventListener(type, listener);
      changes.removeEventListener(type, listener);
    },
  };
}

function turnTo(): void {
  change({ usedAt: Date.now() });
}

function change(to: Partial<ShownWindow>): void {
  own = { ...own, ...to };
  if (document.hidden) return;
  tell({ here: own });
  divide();
}

function tell(said: Said): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no other origins
  channel?.postMessage(said);
}

function hear(said: Said): void {
  if ("here" in said) others.set(said.here.id, { window: said.here, seenAt: Date.now() });
  else if ("gone" in said) others.delete(said.gone);
  else if (!document.hidden) tell({ here: own });
  divide();
}

function divide(): void {
  for (const [id, { seenAt }] of others) if (Date.now() - seenAt > 3 * heardMs) others.delete(id);
  const now = shareOf(
    own,
    [...others.values()].map(({ window }) => window),
  );
  const before = share.peek();
  if (now.events === before.events && now.log === before.log) return;
  share.value = now;
  changes.dispatchEvent(new Event("visibilitychange"));
}
