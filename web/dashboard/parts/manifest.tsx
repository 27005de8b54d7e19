import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { ManifestView } from "../../../src/api/management/manifest-text.ts";
import type { SlotView } from "../../../src/api/management/views.ts";
import { ApiFailure, call, messageOf } from "../../shared/api.ts";
import { Button } from "../../shared/button.tsx";
import { useOnce } from "../../shared/once.ts";
import { keepDraft, drafts } from "../drafts.ts";
import { CodeEditor } from "./code-editor.tsx";
import { KeptDraft } from "./kept-draft.tsx";
import { Show, useLoaded } from "./load.tsx";
import { SetUp } from "./set-up.tsx";

/** The manifest as its file has it: checked and compared before it is saved, and never written over another edit. */
export function ManifestEditor(props: { readonly slot: SlotView; readonly onSaved: () => void }): JSX.Element {
  const isBare = props.slot.conditions.some(({ reason }) => reason === "NotConfigured");
  if (props.slot.file === null) {
    return (
      <>
        <p class="quiet">
          No manifest configures this slot.{isBare && " Choose a model for it here."}{" "}
          <code>berth slot create --help</code> shows how a manifest is made by hand.
        </p>
        {isBare && <SetUp slot={props.slot} onDone={props.onSaved} />}
        <KeptDraft slot={props.slot.name} />
      </>
    );
  }
  return <Source name={props.slot.name} onSaved={props.onSaved} />;
}

function Source({ name, onSaved }: { readonly name: string; readonly onSaved: () => void }): JSX.Element {
  const [source, again] = useLoaded(() => call("GET /api/slots/{name}/manifest", { params: { name } }));
  const saved = (): void => {
    again();
    onSaved();
  };
  return <Show of={source}>{(value) => <Editor name={name} source={value} onSaved={saved} />}</Show>;
}

interface Said {
  readonly tone: "alert" | "status";
  readonly lines: readonly string[];
  /** Lines of the text that something is wrong with, from 1. */
  readonly badLines?: readonly number[];
  /** The text that it was said of: of another one nothing is known. Problems stay until the corrected text is checked. */
  readonly of: string;
}

/** A text whose problems are being corrected is checked again, so long after the last keystroke, in milliseconds. */
const checkMs = 300;

interface EditorProps {
  readonly name: string;
  readonly source: ManifestView;
  readonly onSaved: () => void;
}

function Editor({ name, source, onSaved }: EditorProps): JSX.Element {
  const draft = drafts.peek().get(name);
  const [text, setText] = useState(draft?.text ?? source.text);
  const [base, setBase] = useState(draft?.base ?? source);
  const [isBusy, once] = useOnce();
  const [says, setSays] = useState<Said>();
  useEffect(() => {
    // Another edit than this one is never put in its place: it becomes what this one is compared with, once it is saved.
    if (text === base.text) setText(source.text);
    if (text === base.text || text === source.text) setBase(source);
  }, [source.hash]);
  // Before the next event: a reload right after a keystroke asks, too.
  useLayoutEffect(() => keepDraft(name, { text, base }), [name, text, base]);
  const isReadOnly = source.read_only !== null;
  const isChanged = text !== base.text;
  const fail = (error: unknown): void => setSays({ tone: "alert", lines: [messageOf(error)], of: text });
  const validate = async (): Promise<boolean> => {
    const answer = await call("POST /api/config/validate", { body: { files: { [base.file]: text } } });
    const lines = answer.diagnostics.map(({ file, line, path = [], message }) => {
      const place = line === undefined ? file : `${file}:${line}`;
      return [place, ...(path.length === 0 ? [] : [path.join(".")]), message].join(": ");
    });
    const badLines = answer.diagnostics.flatMap(({ line }) => line ?? []);
    setSays(
      answer.valid
        ? { tone: "status", lines: ["It is valid."], of: text }
        : { tone: "alert", lines, badLines, of: text },
    );
    return answer.valid;
  };
  const save = async (): Promise<void> => {
    if (!(await validate())) return;
    try {
      await call("PUT /api/slots/{name}/manifest", { params: { name }, body: { text, hash: base.hash } });
      const now = await call("GET /api/slots/{name}/manifest", { params: { name } });
      // Of an edit that came right after this one the old hash stays, so that the next save finds it.
      setBase(now.text === text ? now : { ...base, text });
      setSays({ tone: "status", lines: ["Saved."], of: text });
      onSaved();
    } catch (error) {
      if (!(error instanceof ApiFailure) || error.code !== "config.changed") throw error;
      // Somebody else was first: the present file becomes what the edit is compared with, and the edit stays.
      setBase(await call("GET /api/slots/{name}/manifest", { params: { name } }));
      const line =
        "The file was changed meanwhile. Below is your text compared with the present file; Save writes yours.";
      setSays({ tone: "alert", lines: [line], of: text });
    }
  };
  const act = (what: () => Promise<unknown>): void => void once(async () => void (await what())).catch(fail);
  const isCorrected = says?.badLines !== undefined && says.of !== text;
  useEffect(() => {
    if (!isCorrected || !isChanged) return undefined;
    const timer = setTimeout(() => void validate().catch(fail), checkMs);
    return () => clearTimeout(timer);
  }, [text, says]);
  return (
    <>
      <p class="quiet">
        {base.file}
        {isReadOnly && <> · read-only here: {source.read_only}. Change it where it comes from.</>}
      </p>
      <CodeEditor
        label="Manifest"
        language={/\.ya?ml$/.test(base.file) ? "yaml" : "toml"}
        isReadOnly={isReadOnly}
        value={text}
        badLines={says?.of === text ? (says.badLines ?? []) : []}
        onInput={setText}
      />
      {!isReadOnly && (
        <div class="row sticky">
          <Button isOff={isBusy} onClick={() => act(validate)}>
            Validate
          </Button>
          <Button isMain isOff={isBusy || !isChanged} onClick={() => act(save)}>
            Save
          </Button>
          {isChanged && (
            <button type="button" onClick={() => setText(base.text)}>
              Undo
            </button>
          )}
        </div>
      )}
      {says !== undefined && (says.of === text || (says.tone === "alert" && isChanged)) && (
        <div role={says.tone}>
          {says.lines.map((line) => (
            <p key={line}>{line}</p>
          ))}
        </div>
      )}
      {isChanged && <Difference before={base.text} after={text} />}
    </>
  );
}

function Difference({ before, after }: { readonly before: string; readonly after: string }): JSX.Element {
  const [library] = useLoaded(() => import("../../shared/line-diff.ts"));
  return (
    <Show of={library}>
      {({ lineDifferences }) => (
        <pre class="diff" aria-label="Difference to the file">
          {lineDifferences(before, after).map(({ kind, line }, at) => (
            <div key={at} class={kind}>
              {{ same: "  ", added: "+ ", removed: "- " }[kind]}
              {line}
            </div>
          ))}
        </pre>
      )}
    </Show>
  );
}
