import { ArrowUp, Paperclip, Square } from "lucide";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../../shared/api.ts";
import { Icon } from "../../shared/icon.tsx";
import { send, stopAnswer } from "../conversation.ts";
import { focusMessage, messageBox } from "../focus.ts";
import { pictureOf } from "../pictures.ts";
import { attached, draft } from "../session.ts";
import { current, failure, isAnswering } from "../store.ts";
import { isText, textOf } from "../texts.ts";
import { RecordButton } from "./speech.tsx";

/** Goes on with what stands in the box. */
function add(more: string, between = "\n\n"): void {
  draft.value = draft.value === "" ? more : `${draft.value}${between}${more}`;
}

export function Composer(): JSX.Element {
  const text = draft.value;
  const pictures = attached.value;
  /** Files that become pictures of this message: without them it would be another one. */
  const [reading, setReading] = useState(0);
  const isEmpty = text.trim() === "" && pictures.length === 0;
  const canSend = !isEmpty && reading === 0 && current.value.model !== "";
  const submit = (): void => {
    if (!canSend || isAnswering.value) return;
    failure.value = "";
    // Half a sign, which a broken program has put on the clipboard, is refused by engines and by the server.
    void send(text.trim().toWellFormed(), pictures);
    draft.value = "";
    attached.value = [];
    focusMessage();
  };
  const attach = async (files: readonly File[]): Promise<void> => {
    setReading((count) => count + files.length);
    failure.value = "";
    for (const file of files) {
      try {
        if (isText(file)) add(await textOf(file));
        else {
          const picture = await pictureOf(file);
          attached.value = [...attached.value, picture];
        }
      } catch (error) {
        failure.value = `${failure.value} ${messageOf(error)}`.trim();
      }
      setReading((count) => count - 1);
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void attach([...(event.dataTransfer?.files ?? [])]);
      }}
      onPaste={(event) => {
        const files = [...(event.clipboardData?.files ?? [])];
        if (files.length === 0) return;
        event.preventDefault();
        void attach(files);
      }}
    >
      {pictures.length > 0 && (
        <div class="row">
          {pictures.map((url, at) => (
            <button
              key={at}
              type="button"
              class="ghost"
              aria-label={`Remove picture ${at + 1}`}
              onClick={() => (attached.value = pictures.filter((_, other) => other !== at))}
            >
              <img src={url} alt="" height={48} />
            </button>
          ))}
        </div>
      )}
      <textarea
        ref={messageBox}
        aria-label="Message"
        rows={1}
        placeholder="Ask something"
        title="Enter sends, Shift+Enter begins a new line"
        value={text}
        onInput={(event) => (draft.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <div class="row">
        <label class="attach" title="Attach a picture or a text">
          <Icon of={Paperclip} />
          <span class="unseen">Attach a picture or a text</span>
          <input
            type="file"
            multiple
            class="unseen"
            onChange={(event) => {
              // A copy: the list of the input is emptied below.
              void attach([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
        </label>
        <RecordButton onText={(said) => add(said, " ")} />
        <span role="status">{reading > 0 && "reading files …"}</span>
        {/* Two elements, by their keys: as one, Stop would become Send within its own click, and send the draft. */}
        {isAnswering.value ? (
          <button
            key="stop"
            type="button"
            class="main send"
            aria-label="Stop"
            title="Stop"
            onClick={() => {
              stopAnswer();
              focusMessage();
            }}
          >
            <Icon of={Square} />
          </button>
        ) : (
          <button key="send" type="submit" class="main send" aria-label="Send" title="Send" disabled={!canSend}>
            <Icon of={ArrowUp} />
          </button>
        )}
      </div>
    </form>
  );
}
