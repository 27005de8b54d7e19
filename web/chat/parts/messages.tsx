import { ArrowDown, RotateCcw } from "lucide";
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../../shared/icon.tsx";
import { Mark } from "../../shared/mark.tsx";
import { CopyButton } from "../../shared/copy-button.tsx";
import type { Message } from "../model.ts";
import { answeredAt, partial, retry, waiting } from "../conversation.ts";
import { focusMessage } from "../focus.ts";
import { draft } from "../session.ts";
import { answering, current, hasModels, isAnswering } from "../store.ts";
import { stoppedWords } from "../turns.ts";
import { Markdown } from "./markdown.tsx";
import { SpeakButton } from "./speech.tsx";

export function Messages(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isBehind, setBehind] = useState(false);
  const { id, ...present } = current.value;
  const isHere = answering.value?.id === id;
  const open = isHere ? partial.value : undefined;
  // An answer that is replaced stays until the new one has text.
  const messages = open === undefined ? present.messages : present.messages.slice(0, answeredAt.value);
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
      aria-busy={isHere}
      tabIndex={0}
      ref={box}
      onScroll={({ currentTarget: view }) => {
        follows.current = view.scrollHeight - view.scrollTop - view.clientHeight < 60;
        setBehind(!follows.current);
      }}
    >
      {messages.length === 0 && open === undefined && <Beginning />}
      {messages.map((message, at) => (
        <MessageView key={`${id}${at}`} message={message} isLast={at === messages.length - 1} />
      ))}
      {open !== undefined && <MessageView message={open} isLast={false} />}
      {isBehind && (
        <button type="button" class="to-end" onClick={() => box.current?.scrollTo({ top: box.current.scrollHeight })}>
          <Icon of={ArrowDown} />
          {isHere ? "New answer" : "To the end"}
        </button>
      )}
    </div>
  );
}

/** What a person does first: there may be nobody to talk to yet. */
function Beginning(): JSX.Element {
  const { model } = current.value;
  if (hasModels.value !== false)
    return (
      <div class="beginning">
        <Mark />
        <p class="greeting">{model === "" ? "Ask a model" : `Ask ${model}`}</p>
        <div class="row">
          {starters.map((text) => (
            <button key={text} type="button" onClick={() => begin(text)}>
              {text}
            </button>
          ))}
        </div>
      </div>
    );
  return (
    <p class="beginning">
      No model can chat here yet: the page{" "}
      <a href="../ui/models" target="_self">
        Models
      </a>{" "}
      of the dashboard has some that fit this machine, and the page{" "}
      <a href="../ui" target="_self">
        Overview
      </a>{" "}
      says why a slot is not ready.
    </p>
  );
}

const starters = [
  "What can you do?",
  "Explain an idea simply",
  "Help me write an e-mail",
  "Write a small program",
] as const;

/** Puts the beginning of a question into the box, for the person to go on with. */
function begin(text: string): void {
  draft.value = text;
  focusMessage();
}

/** What the answer waits for. Not in the log, of which nothing is read out while it is busy; and there before it says anything. */
export function Progress(): JSX.Element {
  const isHere = answering.value !== undefined && answering.value.id === current.value.id;
  return (
    <p role="status" aria-label="Progress" aria-live="polite" class="busy progress">
      {isHere && waiting.value !== "" && `${waiting.value} …`}
    </p>
  );
}

function MessageView({ message, isLast }: { readonly message: Message; readonly isLast: boolean }): JSX.Element {
  const { role, content, images = [], thoughts, toolCalls = [], failure, tokens = 0, seconds = 0, model } = message;
  const isAnswer = role === "assistant";
  return (
    <article class={role} aria-label={isAnswer ? (model ?? "Answer") : "You"}>
      <div class="quiet who">{isAnswer ? (model ?? "Answer") : "You"}</div>
      {thoughts !== undefined && (
        <details class="thoughts">
          <summary>Thoughts</summary>
          <Markdown text={thoughts} />
        </details>
      )}
      {isAnswer ? <Markdown text={content} /> : <Said text={content} />}
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
      {failure === stoppedWords && <p class="quiet">{failure}</p>}
      {failure !== undefined && failure !== stoppedWords && <div role="alert">{failure}</div>}
      {isAnswer && (content !== "" || failure !== undefined) && (
        <div class="row quiet under">
          {tokens > 0 && (
            <span>
              {tokens} {tokens === 1 ? "token" : "tokens"}
              {/* The browser's clock is coarse: a short answer may take no time by it. */}
              {seconds > 0 && `, ${(tokens / seconds).toFixed(1)} tok/s`}
            </span>
          )}
          {content !== "" && <CopyButton text={content} label="Copy the answer" />}
          {content !== "" && <SpeakButton text={content} />}
          {isLast && <RetryButton />}
        </div>
      )}
      {/* Its answer was lost, with the page perhaps. */}
      {!isAnswer && isLast && (
        <div class="row quiet under">
          <RetryButton />
        </div>
      )}
    </article>
  );
}

/** More characters of a message are folded: breaking megabytes into rows would stop the page for seconds. */
const foldedAt = 20_000;

function Said({ text }: { readonly text: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  if (isWhole || text.length <= foldedAt) return <p class="said">{text}</p>;
  return (
    <>
      <p class="said">{`${text.slice(0, foldedAt).toWellFormed()} …`}</p>
      <button type="button" onClick={() => setWhole(true)}>
        Show all {text.length.toLocaleString("en")} characters
      </button>
    </>
  );
}

function RetryButton(): JSX.Element | null {
  if (isAnswering.value) return null;
  const again = (): void => {
    void retry();
    focusMessage();
  };
  return (
    <button type="button" class="ghost" onClick={again}>
      <Icon of={RotateCcw} />
      Retry
    </button>
  );
}
