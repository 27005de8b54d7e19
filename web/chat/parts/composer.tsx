import { ArrowUp, Paperclip, Square, X } from "lucide";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../../shared/api.ts";
import { Icon } from "../../shared/icon.tsx";
import { send, stopAnswer } from "../conversation.ts";
import { focusMessage, messageBox } from "../focus.ts";
import { pictureOf } from "../pictures.ts";
import { attached, attachedTexts, draft } from "../session.ts";
import { current, failure, isAnswering } from "../store.ts";
import { isText, textOf } from "../texts.ts";
import { RecordButton } from "./speech.tsx";

/** A longer text is attached instead: the box would be slow, and show little of it. */
const longestPaste = 20_000;

/** Goes on with what stands in the box. */
function add(more: string): void {
  draft.value = draft.value === "" ? more : `${draft.value} ${more}`;
}

export function Composer(): JSX.Element {
  const text = draft.value;
  const pictures = attached.value;
  const files = attachedTexts.value;
  /** Why files are not attached. */
  const [refusal, setRefusal] = useState("");
  /** Files that become pictures of this message: without them it would be another one. */
  const [reading, setReading] = useState(0);
  const isEmpty = text.trim() === "" && pictures.length + files.length === 0;
  const canSend = !isEmpty && reading === 0 && current.value.model !== "";
  const submit = (): void => {
    if (!canSend || isAnswering.value) return;
    failure.value = "";
    // Half a sign, which a broken program has put on the clipboard, is refused by engines and by the server.
    void send(text.trim().toWellFormed(), pictures, files);
    draft.value = "";
    attached.value = [];
    attachedTexts.value = [];
    setRefusal("");
    focusMessage();
  };
  const attach = async (files: readonly File[]): Promise<void> => {
    setReading((count) => count + files.length);
    const refusals: string[] = [];
    for (const file of files) {
      try {
        if (isText(file)) {
          const text = await textOf(file);
          attachedTexts.value = [...attachedTexts.value, text];
        } else {
          const picture = await pictureOf(file);
          attached.value = [...attached.value, picture];
        }
      } catch (error) {
        refusals.push(messageOf(error));
      }
      setReading((count) => count - 1);
    }
    setRefusal(refusals.join(" "));
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
        const pasted = event.clipboardData?.getData("text/plain") ?? "";
        if (files.length === 0 && pasted.length <= longestPaste) return;
        event.preventDefault();
        if (files.length > 0) void attach(files);
        else attachedTexts.value = [...attachedTexts.value, { name: "pasted.txt", text: pasted.toWellFormed() }];
      }}
    >
      {refusal !== "" && <div role="alert">{refusal}</div>}
      {pictures.length + files.length > 0 && (
        <div class="row">
          {files.map(({ name }, at) => (
            <button
              key={`${name}${at}`}
              type="button"
              class="file"
              aria-label={`Remove ${name}`}
              onClick={() => {
                attachedTexts.value = files.filter((_, other) => other !== at);
                focusMessage();
              }}
            >
              <span>{name}</span>
              <Icon of={X} />
            </button>
          ))}
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
        <RecordButton onText={(said) => add(said)} />
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
