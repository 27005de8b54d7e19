import type { JSX } from "preact";
import { call } from "../../shared/api.ts";
import type { Conversation } from "../model.ts";
import { conversations, current, forget, open, shown } from "../store.ts";

export function ConversationList(): JSX.Element {
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
                if (confirm(`Delete “${title}”?`)) void shown(() => forget(id));
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
  const conversation = await call<Conversation>(`/api/conversations/${id}`);
  const text = [
    `# ${conversation.title}`,
    ...conversation.messages.map(({ role, content, model }) => `## ${model ?? role}\n\n${content}`),
  ].join("\n\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/markdown" }));
  link.download = `${conversation.title.replaceAll(/[^\p{L}\p{N} _-]/gu, "").trim() || "conversation"}.md`;
  link.click();
  URL.revokeObjectURL(link.href);
}
