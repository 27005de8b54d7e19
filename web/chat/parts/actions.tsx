import { Check, ChevronLeft, ChevronRight, Copy, Pencil, RotateCcw } from "lucide";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { copy } from "../../shared/copy.ts";
import { Icon } from "../../shared/icon.tsx";
import { retry, showVersion } from "../conversation.ts";
import { focusMessage } from "../focus.ts";
import type { Message } from "../model.ts";
import { current, isAnswering } from "../store.ts";
import { stoppedWords } from "../turns.ts";
import { IconButton } from "./icon-button.tsx";
import { ModelMenu } from "./model-menu.tsx";
import { SpeakButton } from "./speech.tsx";

interface Place {
  /** Absent: the message is being written. */
  readonly place: number | undefined;
  readonly versions: readonly number[] | undefined;
  readonly isLast: boolean;
}

/** The tokens and time of an answer, and the buttons for it. */
export function AnswerActions({
  message,
  place,
  versions,
  isLast,
}: Place & { readonly message: Message }): JSX.Element | null {
  const { content, failure, tokens = 0, seconds = 0 } = message;
  const isWhole = place !== undefined;
  // The card of a failure has the button itself.
  const isRetried = isLast && isWhole && (failure === undefined || failure === stoppedWords);
  // There is nothing to say or to do below a refusal.
  if (content === "" && !isRetried && versions === undefined) return null;
  return (
    <div class="row quiet under">
      {tokens > 0 && (
        <span>
          {tokens} {tokens === 1 ? "token" : "tokens"}
          {/* An answer that comes at once says nothing of the model's rate. */}
          {seconds >= 0.2 && ` · ${(tokens / seconds).toFixed(1)} tok/s`}
        </span>
      )}
      <Versions place={place} versions={versions} />
      {isWhole && content !== "" && <CopyAction text={content} />}
      {isWhole && content !== "" && <SpeakButton text={content} />}
      {isRetried && <RetryButton />}
      {isRetried && !isAnswering.value && (
        <ModelMenu
          label="Ask another model"
          except={message.model ?? current.value.model}
          onChoose={(model) => void retry(model)}
        />
      )}
    </div>
  );
}

interface QuestionActionsProps extends Place {
  readonly onEdit: () => void;
}

export function QuestionActions({ place, versions, isLast, onEdit }: QuestionActionsProps): JSX.Element {
  return (
    <div class="row quiet under">
      <Versions place={place} versions={versions} />
      {!isAnswering.value && <IconButton name="Edit the question" icon={Pencil} onClick={onEdit} />}
      {/* Its answer was lost, with the page perhaps. */}
      {isLast && <RetryButton />}
    </div>
  );
}

/** Which of the versions of a message is shown, and the way to the others. */
function Versions({ place, versions }: Pick<Place, "place" | "versions">): JSX.Element | null {
  if (place === undefined || versions === undefined) return null;
  const at = versions.indexOf(place);
  const [earlier, later] = [versions[at - 1], versions[at + 1]];
  const show = (other: number | undefined): void => {
    if (other !== undefined && !isAnswering.value) showVersion(other);
  };
  return (
    <span class="versions" role="group" aria-label="Versions">
      <IconButton
        name="Earlier version"
        icon={ChevronLeft}
        isOff={earlier === undefined}
        onClick={() => show(earlier)}
      />
      <span>
        {at + 1}/{versions.length}
      </span>
      <IconButton name="Later version" icon={ChevronRight} isOff={later === undefined} onClick={() => show(later)} />
    </span>
  );
}

function CopyAction({ text }: { readonly text: string }): JSX.Element {
  const [says, setSays] = useState("");
  const isDone = says === "Copied";
  return (
    <>
      <IconButton
        name={isDone ? says : "Copy the answer"}
        icon={isDone ? Check : Copy}
        onClick={() => void copy(text).then(setSays)}
      />
      {!isDone && says}
    </>
  );
}

/** Asks the last question again. `hasWord`: in a row of other buttons with words. */
export function RetryButton({ hasWord = false }: { readonly hasWord?: boolean }): JSX.Element | null {
  if (isAnswering.value) return null;
  const again = (): void => {
    void retry();
    focusMessage();
  };
  if (!hasWord) return <IconButton name="Retry" icon={RotateCcw} onClick={again} />;
  return (
    <button type="button" onClick={again}>
      <Icon of={RotateCcw} />
      Retry
    </button>
  );
}
