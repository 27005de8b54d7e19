import type { JSX } from "preact";
import { CopyButton } from "../../shared/copy-button.tsx";
import { dropDraft, drafts } from "../drafts.ts";

/** What a person has written of a manifest that is gone meanwhile; nothing where nothing was written. */
export function KeptDraft({ slot }: { readonly slot: string }): JSX.Element | null {
  const draft = drafts.value.get(slot);
  if (draft === undefined) return null;
  return (
    <section class="next" aria-label="Your unsaved manifest">
      <p role="alert">
        {draft.base.file} was removed while you edited it, by Git or by another person. Your text is kept below until
        you leave this page: copy it to keep it, or save it as a new manifest.
      </p>
      <pre aria-label="Your text">{draft.text}</pre>
      <div class="row">
        <CopyButton text={draft.text} label="Copy your text" />
        <button type="button" onClick={() => dropDraft(slot)}>
          Discard it
        </button>
      </div>
    </section>
  );
}
