import { signal } from "@preact/signals";
import type { ManifestView } from "../../src/api/management/manifest-text.ts";

/** An edit that is not saved, and the file that it began with. */
export interface Draft {
  readonly text: string;
  readonly base: ManifestView;
}

/**
 * Edits by the name of their slot, as long as the page is open. Not within the editor: a slot that Git removes takes
 * its editor from the page, and must not take the text.
 */
export const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

/** Keeps what a person has written; a text that is the file's own is none to keep. */
export function keepDraft(slot: string, draft: Draft): void {
  if (draft.text === draft.base.text) dropDraft(slot);
  else drafts.value = new Map([...drafts.value, [slot, draft]]);
}

export function dropDraft(slot: string): void {
  if (drafts.value.has(slot)) drafts.value = new Map([...drafts.value].filter(([each]) => each !== slot));
}

/** The files whose edits are lost with the page. */
export function unsavedFiles(): readonly string[] {
  return [...drafts.value.values()].map(({ base }) => base.file);
}
