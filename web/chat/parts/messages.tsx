import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { CopyButton } from "../../shared/copy-button.tsx";
import type { Message } from "../model.ts";
import { retry } from "../conversation.ts";
import { answeredId, isAnswering, partial, waiting } from "../conversation.ts";
import { current } from "../store.ts";
import { Markdown } from "./markdown.tsx";
import { SpeakButton } from "./speech.tsx";

export function Messages(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const { messages, id } = current.value;
  const isHere = answeredId.value === id;
  const open = isHere ? partial.value : undefined;
  useLayoutEffect(() => {
    const view = box.current;
    if (view !== null && follows.current) view.scrollTop = view.scrollHeight;
  });
  return (
    <div
      class="messages"
      role="log"
      aria-label="Messages"
      aria-live="polite"
      aria-busy={isHere && isAnswering.value}
      tabIndex={0}
      ref={box}
      onScroll={({ currentTarget: view }) => {
        follows.current = view.scrollHeight - view.scrollTop - view.clientHeight < 60;
      }}
    >
      {messages.length === 0 && open === undefined && <p class="quiet">Write the first message below.</p>}
      {messages.map((message, at) => (
        <MessageView key={`${id}${at}`} message={message} isLast={at === messages.length - 1} />
      ))}
      {open !== undefined && <MessageView message={open} isLast={false} />}
      {isHere && waiting.value !== "" && (
        <p role="status" class="busy">
          {waiting.value} …
        </p>
      )}
    </div>
  );
}

function MessageView({ message, isLast }: { readonly message: Message; readonly isLast: boolean }): JSX.Element {
  const { role, content, images = [], thoughts, toolCalls = [], failure, tokens = 0, seconds = 0, model } = message;
  const isAnswer = role === "assistant";
  return (
    <article class={role} aria-label={isAnswer ? (model ?? "Answer") : "You"}>
      <div class="quiet who">{isAnswer ? (model ?? "Answer") : "You"}</div>
      {thoughts !== undefined && (
        <details>
          <summary>Thoughts</summary>
          <Markdown text={thoughts} />
        </details>
      )}
      {isAnswer ? <Markdown text={content} /> : <p class="said">{content}</p>}
      {images.map((url, at) => (
        <img key={at} src={url} alt={isAnswer ? `drawn by ${model ?? "the model"}` : "attached picture"} />
      ))}
      {toolCalls.map((call, at) => (
        <details key={at}>
          <summary>
            Calls <code>{call.name}</code>
          </summary>
          <pre>{call.arguments}</pre>
        </details>
      ))}
      {failure !== undefined && <div role="alert">{failure}</div>}
      {isAnswer && (content !== "" || failure !== undefined) && (
        <div class="row quiet">
          {tokens > 0 && (
            <span>
              {tokens} {tokens === 1 ? "token" : "tokens"}
              {/* The browser's clock is coarse: a short answer may take no time by it. */}
              {seconds > 0 && `, ${(tokens / seconds).toFixed(1)} tok/s`}
            </span>
          )}
          {content !== "" && <CopyButton text={content} label="Copy the answer" />}
          {content !== "" && <SpeakButton text={content} />}
          {isLast && !isAnswering.value && (
            <button type="button" onClick={() => void retry()}>
              Retry
            </button>
          )}
        </div>
      )}
    </article>
  );
}
