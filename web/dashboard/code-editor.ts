import { createEditor, type PrismEditor } from "prism-code-editor";
import { defaultCommands, editHistory, setIgnoreTab } from "prism-code-editor/commands";
// oxlint-disable-next-line import/no-unassigned-import -- a language registers itself
import "prism-code-editor/prism/languages/toml";
// oxlint-disable-next-line import/no-unassigned-import -- a language registers itself
import "prism-code-editor/prism/languages/yaml";

interface OpenEditor {
  readonly language: "toml" | "yaml";
  readonly isReadOnly: boolean;
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
}

// Tab leaves the editor, as it leaves every field: without this nobody leaves it by the keyboard.
setIgnoreTab(true);

/** Opens an editor within an element. A file of its own, which a page loads once a manifest is shown. */
export function openEditor(at: HTMLElement, options: OpenEditor): PrismEditor {
  const { language, isReadOnly, label, value, onInput } = options;
  const editor = createEditor(
    at,
    { language, value, readOnly: isReadOnly, tabSize: 2, onUpdate: onInput },
    defaultCommands(),
    editHistory(),
  );
  editor.textarea.ariaLabel = label;
  editor.textarea.spellcheck = false;
  return editor;
}
