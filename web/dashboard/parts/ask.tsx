import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Question {
  /** Of all questions since the page was opened. */
  readonly nth: number;
  readonly text: string;
  /** On the button that acts, such as `Revoke`. */
  readonly yes: string;
  readonly no: string;
  readonly answer: (isYes: boolean) => void;
}

let count = 0;
const pendingQuestion = signal<Question | undefined>(undefined);

/** Asks a person, who says no by Escape too. A question that is still open is answered with no. */
export function ask({
  text,
  yes,
  no = "Cancel",
}: Partial<Question> & Pick<Question, "text" | "yes">): Promise<boolean> {
  pendingQuestion.value?.answer(false);
  count += 1;
  const nth = count;
  return new Promise((resolve) => (pendingQuestion.value = { nth, text, yes, no, answer: resolve }));
}

/** Where questions are asked: once on the page. What lies below it can be neither clicked nor reached by the keyboard. */
export function AskDialog(): JSX.Element | null {
  const question = pendingQuestion.value;
  // A dialog opens once: the same question again, before the browser reported the end of the first, needs its own.
  return question === undefined ? null : <Asking key={question.nth} question={question} />;
}

function Asking({ question }: { readonly question: Question }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  // Closed before it leaves the page: so the browser returns the focus to where it was.
  const end = (value: string) => () => box.current?.close(value);
  const closed = (): void => {
    if (pendingQuestion.value === question) pendingQuestion.value = undefined;
    question.answer(box.current?.returnValue === "yes");
  };
  return (
    <dialog ref={box} aria-labelledby="question" onClose={closed}>
      <p id="question">{question.text}</p>
      <div class="row">
        <button type="button" autofocus onClick={end("")}>
          {question.no}
        </button>
        <button type="button" class="main" onClick={end("yes")}>
          {question.yes}
        </button>
      </div>
    </dialog>
  );
}
