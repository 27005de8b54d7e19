import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { send } from "../conversation.ts";
import type { Message } from "../model.ts";
import { isAnswering } from "../store.ts";
import { stoppedWords } from "../turns.ts";
import { AnswerActions, QuestionActions } from "./actions.tsx";
import { Edit } from "./edit.tsx";
import { Failure } from "./failure.tsx";
import { Markdown } from "./markdown.tsx";

interface MessageProps {
  readonly message: Message;
  /** Its place among the messages of all branches; absent: it is being written. */
  readonly place?: number;
  /** The places of its versions, where there are several. */
  readonly versions?: readonly number[] | undefined;
  readonly isLast?: boolean;
}

/** One message. It is not drawn anew with each piece of a later one. */
export const MessageView = memo(function MessageView({
  message,
  place,
  versions,
  isLast = false,
}: MessageProps): JSX.Element {
  const { content, model = "Answer" } = message;
  const [isEdited, setEdited] = useState(false);
  if (message.role === "assistant")
    return (
      <article class="assistant" aria-label={model}>
        <div class="quiet who">{model}</div>
        <Answer message={message} isOpen={place === undefined} />
        {message.failure === stoppedWords && <p class="quiet">{message.failure}</p>}
        {message.failure !== undefined && message.failure !== stoppedWords && (
          <Failure message={message} isLast={isLast} />
        )}
        {message.isCut === true && <Cut tokens={message.tokens ?? 0} canContinue={isLast && place !== undefined} />}
        <AnswerActions message={message} place={place} versions={versions} isLast={isLast} />
      </article>
    );
  return (
    <article class="user" aria-label="You">
      <div class="quiet who">You</div>
      {isEdited && place !== undefined ? (
        <Edit text={content} place={place} onDone={() => setEdited(false)} />
      ) : (
        <>
          {message.files?.map(({ name, text }, at) => (
            <details key={at} class="file">
              <summary>{name}</summary>
              <pre tabIndex={0}>{text}</pre>
            </details>
          ))}
          {content !== "" && <Said text={content} />}
          <Pictures of={message} alt="attached picture" />
          <QuestionActions place={place} versions={versions} isLast={isLast} onEdit={() => setEdited(true)} />
        </>
      )}
    </article>
  );
});

function Cut({ tokens, canContinue }: { readonly tokens: number; readonly canContinue: boolean }): JSX.Element {
  return (
    <p class="row quiet">
      Cut at the limit of {tokens} {tokens === 1 ? "token" : "tokens"}
      {canContinue && !isAnswering.value && (
        <button type="button" onClick={() => void send("Continue.")}>
          Continue
        </button>
      )}
    </p>
  );
}

function Answer({ message, isOpen }: { readonly message: Message; readonly isOpen: boolean }): JSX.Element {
  const { content, thoughts, toolCalls = [], model } = message;
  return (
    <>
      {thoughts !== undefined && (
        <details class="thoughts">
          <summary>{thoughtWords(message, isOpen)}</summary>
          <Markdown text={thoughts} />
        </details>
      )}
      <Markdown text={content} />
      <Pictures of={message} alt={`drawn by ${model ?? "the model"}`} />
      {toolCalls.map((call, at) => (
        <details key={at}>
          <summary>
            Calls <code>{call.name}</code>
          </summary>
          <pre>{call.arguments}</pre>
        </details>
      ))}
    </>
  );
}

function thoughtWords({ content, thoughtSeconds }: Message, isOpen: boolean): string {
  if (thoughtSeconds !== undefined) return `Thought for ${Math.max(1, Math.round(thoughtSeconds))} s`;
  return isOpen && content === "" ? "Thinking …" : "Thoughts";
}

function Pictures({ of: { images = [] }, alt }: { readonly of: Message; readonly alt: string }): JSX.Element {
  return (
    <>
      {images.map((url, at) => (
        <img key={at} src={url} alt={alt} />
      ))}
    </>
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
