import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Menu } from "../../shared/menu.tsx";
import { toast } from "../../shared/toast.tsx";
import { stopAnswer } from "../conversation.ts";
import { exportText } from "../export-text.ts";
import { focusMessage } from "../focus.ts";
import { byAge } from "../ages.ts";
import { newId } from "../model.ts";
import {
  answering,
  change,
  conversations,
  current,
  forget,
  keep,
  open,
  shown,
  unkept,
  wholeOf,
  type Summary,
} from "../store.ts";

/** Fewer conversations are seen without a search. */
const searchedFrom = 8;

export function ConversationList(): JSX.Element {
  /** Undefined: nobody is searching. */
  const [search, setSearch] = useState<string>();
  const all = conversations.value;
  const found = all.filter(({ title }) => title.toLowerCase().includes((search ?? "").toLowerCase()));
  return (
    <nav aria-label="Conversations">
      {(all.length >= searchedFrom || search !== undefined) && (
        <input
          type="search"
          aria-label="Search conversations"
          placeholder="Search"
          value={search ?? ""}
          onInput={(event) => setSearch(event.currentTarget.value)}
          onBlur={() => setSearch(search || undefined)}
        />
      )}
      {all.length === 0 && <p class="quiet">No conversation yet.</p>}
      {all.length > 0 && found.length === 0 && <p class="quiet">No title has “{search}”.</p>}
      {byAge(found).map(([age, some]) => (
        <section key={age} aria-label={age}>
          <h2>{age}</h2>
          <ul>
            {some.map((conversation) => (
              <Line key={conversation.id} conversation={conversation} />
            ))}
          </ul>
        </section>
      ))}
    </nav>
  );
}

/** The conversation whose row takes the focus back: its menu has closed, and the row may stand elsewhere now. */
let changed: string | undefined;

function Line({ conversation: { id, title, pinned = false } }: { readonly conversation: Summary }): JSX.Element {
  const row = useRef<HTMLLIElement>(null);
  const [isRenaming, setRenaming] = useState(false);
  const isRefused = unkept.value.some(({ conversation, error }) => conversation.id === id && error !== undefined);
  useLayoutEffect(() => {
    if (changed !== id || isRenaming || document.activeElement !== document.body) return;
    changed = undefined;
    row.current?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
  });
  const set = (what: Partial<Pick<Summary, "title" | "pinned">>): void => {
    changed = id;
    // The row has been drawn by then, or nothing has changed.
    void shown(() => change(id, what)).finally(() =>
      setTimeout(() => (changed = changed === id ? undefined : changed)),
    );
  };
  if (isRenaming)
    return (
      <li ref={row}>
        <Rename
          title={title}
          onDone={(next) => {
            setRenaming(false);
            if (next === undefined) changed = id;
            else set({ title: next });
          }}
        />
      </li>
    );
  return (
    <li ref={row}>
      <button
        type="button"
        class="ghost"
        aria-current={current.value.id === id}
        title={title}
        onClick={() => void shown(() => open(id))}
      >
        <span>
          {title}
          {isRefused && <span class="quiet"> (not kept yet)</span>}
        </span>
      </button>
      <Menu
        label={`More for ${title}`}
        items={[
          { name: "Rename", act: () => setRenaming(true) },
          { name: pinned ? "Unpin" : "Pin", act: () => set({ pinned: !pinned }) },
          { name: "Export", act: () => void shown(() => save(id)) },
          { name: "Delete", isDanger: true, act: () => void shown(() => remove(id)) },
        ]}
      />
    </li>
  );
}

interface RenameProps {
  readonly title: string;
  /** Undefined: it keeps its title. */
  readonly onDone: (title: string | undefined) => void;
}

function Rename({ title, onDone }: RenameProps): JSX.Element {
  const [text, setText] = useState(title);
  // Once: a field that goes by Escape or Enter may lose the focus as it goes.
  const isDone = useRef(false);
  const finish = (next: string | undefined): void => {
    if (!isDone.current) onDone(next);
    isDone.current = true;
  };
  const end = (): void => finish(text.trim() === "" || text.trim() === title ? undefined : text.trim());
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        end();
      }}
    >
      <input
        aria-label="Title"
        autofocus
        maxLength={200}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onBlur={end}
        onKeyDown={({ key }) => key === "Escape" && finish(undefined)}
      />
    </form>
  );
}

/** Deletes it at once, and says how to have it again. */
async function remove(id: string): Promise<void> {
  const whole = await wholeOf(id);
  if (answering.value?.id === id) stopAnswer();
  await forget(id);
  focusMessage();
  // A deleted conversation does not come back under its id, which other windows may still have.
  toast(`“${whole.title}” is deleted.`, () => void shown(() => keep({ ...whole, id: newId() }, whole.updated_at)));
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
