import type { JSX } from "preact";
import { stopAnswer } from "../conversation.ts";
import { exportText } from "../export-text.ts";
import { focusMessage } from "../focus.ts";
import { answering, conversations, current, forget, open, shown, unkept, wholeOf } from "../store.ts";

export function ConversationList(): JSX.Element {
  const refused = unkept.value.filter(({ error }) => error !== undefined);
  const failing = new Set(refused.map(({ conversation }) => conversation.id));
  return (
    <nav aria-label="Conversations">
      {conversations.value.length === 0 && <p class="quiet">No conversation yet.</p>}
      <ul>
        {conversations.value.map(({ id, title }) => (
          <li key={id}>
            <button
              type="button"
              class="plain"
              aria-current={current.value.id === id}
              onClick={() => void shown(() => open(id))}
            >
              {title}
              {failing.has(id) && <span class="quiet"> (not kept yet)</span>}
            </button>
            <button
              type="button"
              class="plain"
              aria-label={`Export ${title}`}
              onClick={() => void shown(() => save(id))}
            >
              Export
            </button>
            <button
              type="button"
              class="plain"
              aria-label={`Delete ${title}`}
              onClick={() => {
                if (!confirm(`Delete “${title}”?`)) return;
                if (answering.value?.id === id) stopAnswer();
                void shown(() => forget(id));
                focusMessage();
              }}
            >
              Delete
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** As a file of Markdown, which people and other programs read. */
async function save(id: string): Promise<void> {
  const conversation = await wholeOf(id);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([exportText(conversation)], { type: "text/markdown" }));
  link.download = `${conversation.title.replaceAll(/[^\p{L}\p{N} _-]/gu, "").trim() || "conversation"}.md`;
  link.click();
  URL.revokeObjectURL(link.href);
}
