import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { PrismEditor } from "prism-code-editor";

interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  readonly language: "toml" | "yaml";
  readonly isReadOnly: boolean;
  /** Lines that something is wrong with, from 1. */
  readonly badLines: readonly number[];
  readonly onInput: (value: string) => void;
}

/**
 * A text with line numbers and colours. It is a plain text field until the editor's own code has come, which a slow network or
 * a broken one may hold back.
 */
export function CodeEditor({ label, value, language, isReadOnly, badLines, onInput }: CodeEditorProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plain = useRef<HTMLTextAreaElement>(null);
  const editor = useRef<PrismEditor | undefined>(undefined);
  const latest = useRef({ value, onInput });
  latest.current = { value, onInput };
  /** The text of the editor as it has told it. */
  const told = useRef(value);
  useEffect(() => {
    let isGone = false;
    void import("../code-editor.ts").then(({ openEditor }) => {
      const [at, field] = [box.current, plain.current];
      if (isGone || at === null) return;
      const focused = document.activeElement === field ? field : null;
      const opened = openEditor(at, {
        language,
        isReadOnly,
        label,
        value: latest.current.value,
        onInput: (text) => {
          told.current = text;
          latest.current.onInput(text);
        },
      });
      told.current = opened.value;
      editor.current = opened;
      field?.remove();
      if (focused === null) return;
      opened.textarea.focus();
      opened.textarea.setSelectionRange(focused.selectionStart, focused.selectionEnd);
    });
    return () => {
      isGone = true;
      editor.current?.remove();
      editor.current = undefined;
    };
  }, [language, isReadOnly]);
  // Before the next keystroke: an older text that were put back would be told as a new one, without an end.
  useLayoutEffect(() => {
    if (value === told.current) return;
    told.current = value;
    editor.current?.setOptions({ value });
  }, [value]);
  useEffect(() => {
    // The first element holds what is drawn over the text.
    for (const [at, line] of [...(editor.current?.lines ?? [])].entries())
      if (at > 0) line.classList.toggle("bad-line", badLines.includes(at));
  });
  return (
    <div class="editor" ref={box}>
      <textarea
        ref={plain}
        aria-label={label}
        spellcheck={false}
        readOnly={isReadOnly}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  );
}
