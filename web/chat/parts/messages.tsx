import { ArrowDown } from "lucide";
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../../shared/icon.tsx";
import { shownPath, versionsOf } from "../branches.ts";
import { answeredAt, partial } from "../conversation.ts";
import type { Message } from "../model.ts";
import { answering, current } from "../store.ts";
import { saysSomething } from "../turns.ts";
import { Beginning } from "./beginning.tsx";
import { Held } from "./held.tsx";
import { MessageView } from "./message.tsx";

function saysSomethingAt(messages: readonly Message[], place: number): boolean {
  const message = messages[place];
  return message !== undefined && saysSomething(message);
}

export function Messages(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isBehind, setBehind] = useState(false);
  const { id, messages, shown } = current.value;
  const [path, versions] = useMemo(
    () => [shownPath({ messages, ...(shown === undefined ? {} : { shown }) }), versionsOf(messages)] as const,
    [messages, shown],
  );
  const isHere = answering.value?.id === id;
  const open = isHere ? partial.value : undefined;
  // An answer that is replaced stays until the new one has text, unless it says nothing itself.
  const isKept = path.slice(answeredAt.value).some((place) => saysSomethingAt(messages, place));
  const places = isHere && (open !== undefined || !isKept) ? path.slice(0, answeredAt.value) : path;
  useLayoutEffect(() => {
    // A person who asks wants to see the answer.
    if (isHere) follows.current = true;
  }, [isHere]);
  // With new text alone: a scroll of the page's own, while a person scrolls and presses, takes the button away from the press.
  useLayoutEffect(() => {
    const view = box.current;
    if (view !== null && follows.current) view.scrollTop = view.scrollHeight;
  }, [path, open, isHere]);
  return (
    <div
      class="messages"
      role="log"
      aria-label="Messages"
      aria-live="polite"
      aria-busy={isHere}
      tabIndex={0}
      ref={box}
      onScroll={({ currentTarget: view }) => {
        follows.current = view.scrollHeight - view.scrollTop - view.clientHeight < 60;
        setBehind(!follows.current);
      }}
    >
      {places.length === 0 && open === undefined && <Beginning />}
      {places.map((place, at) => {
        const message = messages[place];
        if (message === undefined) return null;
        const isLast = at === places.length - 1 && open === undefined;
        return (
          <MessageView
            key={`${id}${place}`}
            message={message}
            place={place}
            versions={versions.get(place)}
            isLast={isLast}
          />
        );
      })}
      {open !== undefined && <MessageView message={open} />}
      <Held />
      {isBehind && (
        <button type="button" class="to-end" onClick={() => box.current?.scrollTo({ top: box.current.scrollHeight })}>
          <Icon of={ArrowDown} />
          {isHere ? "New answer" : "To the end"}
        </button>
      )}
    </div>
  );
}
