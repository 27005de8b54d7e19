import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { readStream } from "../../shared/answer-stream.ts";
import { answerOf, request } from "../../shared/api.ts";
import { shortTime } from "../../shared/format.ts";
import { thoughtsOf } from "../../shared/thoughts.ts";
import { bodyOf, jsonIn, paths, type Example, type JsonExample } from "./example.ts";
import { JsonField, ModelField, OtherModelField, TextField } from "./fields.tsx";
import { RunForm, useRun, type Run } from "./run.tsx";

interface Called {
  readonly name: string;
  readonly arguments: string;
}

interface Answer {
  readonly text: string;
  readonly thoughts: string;
  readonly calls: readonly Called[];
  readonly tokens: number;
  /** When the first token and the last one came; undefined: it came whole. */
  readonly firstMs?: number;
  readonly lastMs?: number;
}

interface Completion {
  readonly choices: readonly {
    readonly message?: {
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
      readonly reasoning?: unknown;
      readonly tool_calls?: readonly { readonly function: Called }[] | null;
    };
  }[];
  readonly usage?: { readonly completion_tokens?: number };
}

const schemaHint = '{"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]}';
const toolsHint =
  '[{"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {"harbour": {"type": "string"}}}}}]';

/** One question and its answer, as a program asks it, of one model or of two beside each other. */
export function Chat(): JSX.Element {
  const [model, setModel] = useState("");
  const [other, setOther] = useState("");
  const [system, setSystem] = useState("");
  const [question, setQuestion] = useState("Write one sentence about a harbour.");
  const [temperature, setTemperature] = useState("");
  const [stream, setStream] = useState(true);
  const [schemaText, setSchemaText] = useState("");
  const [toolsText, setToolsText] = useState("");
  const schema = jsonIn(schemaText, "object");
  const tools = jsonIn(toolsText, "array");
  const example = {
    kind: "chat",
    model,
    system,
    question,
    temperature,
    stream,
    schema: schema.value,
    tools: tools.value,
  } as const satisfies Example;
  const first = useAnswer(example);
  const second = useAnswer({ ...example, model: other });
  return (
    <RunForm
      example={schema.error === undefined && tools.error === undefined ? example : undefined}
      {...first}
      action="Ask"
      disabled={model === "" || question.trim() === ""}
      show={(answer) => <Shown answer={answer} />}
      figuresOf={figuresOf}
      second={other === "" ? undefined : { ...second, names: [model, other] }}
    >
      <ModelField capability="chat" value={model} onChange={setModel} />
      <OtherModelField capability="chat" than={model} value={other} onChange={setOther} />
      <TextField label="Question" rows={4} value={question} onInput={setQuestion} />
      <label>
        System prompt
        <textarea rows={2} value={system} onInput={(event) => setSystem(event.currentTarget.value)} />
      </label>
      <label>
        Temperature
        <input
          type="number"
          min={0}
          max={2}
          step={0.1}
          placeholder="the engine's"
          value={temperature}
          onInput={(event) => setTemperature(event.currentTarget.value)}
        />
      </label>
      <label>
        <input type="checkbox" checked={stream} onChange={(event) => setStream(event.currentTarget.checked)} /> Stream
      </label>
      <JsonField
        label="JSON schema of the answer"
        rows={3}
        value={schemaText}
        error={schema.error}
        placeholder={schemaHint}
        onInput={setSchemaText}
      />
      <JsonField
        label="Tools, as a JSON list"
        rows={3}
        value={toolsText}
        error={tools.error}
        placeholder={toolsHint}
        onInput={setToolsText}
      />
    </RunForm>
  );
}

/** The request, and its answer as it comes. */
function useAnswer(example: Extract<JsonExample, { readonly kind: "chat" }>): {
  readonly run: Run<Answer>;
  readonly soFar: JSX.Element | undefined;
} {
  const [soFar, setSoFar] = useState<Answer>();
  const run = useRun(async (signal): Promise<Answer> => {
    setSoFar(undefined);
    if (!example.stream)
      return wholeAnswer(await answerOf(paths.chat, { method: "POST", body: bodyOf(example), signal }));
    const began = performance.now();
    const body = { ...bodyOf(example), stream_options: { include_usage: true } };
    const response = await request(paths.chat, { method: "POST", body, signal });
    let answer: Answer = { text: "", thoughts: "", calls: [], tokens: 0 };
    for await (const { delta, tokens } of readStream(response, signal)) {
      if (tokens !== undefined) answer = { ...answer, tokens };
      if (delta === undefined) continue;
      const [text, thoughts, called] = [delta.content ?? "", thoughtsOf(delta), delta.tool_calls ?? []];
      if (text === "" && thoughts === "" && called.length === 0) continue;
      const calls = [...answer.calls];
      for (const { index = 0, function: part } of called) {
        const known = calls[index];
        calls[index] = {
          name: (known?.name ?? "") + (part?.name ?? ""),
          arguments: (known?.arguments ?? "") + (part?.arguments ?? ""),
        };
      }
      const lastMs = performance.now() - began;
      answer = {
        text: answer.text + text,
        thoughts: answer.thoughts + thoughts,
        calls,
        tokens: answer.tokens + 1,
        firstMs: answer.firstMs ?? lastMs,
        lastMs,
      };
      if (!signal.aborted) setSoFar(answer);
    }
    return answer;
  });
  const shown = soFar === undefined ? undefined : <Shown answer={soFar} isOpen />;
  return { run, soFar: shown };
}

function wholeAnswer({ choices, usage }: Completion): Answer {
  const message = choices[0]?.message ?? {};
  return {
    text: message.content ?? "",
    thoughts: thoughtsOf(message),
    calls: (message.tool_calls ?? []).map(({ function: called }) => called),
    tokens: usage?.completion_tokens ?? 0,
  };
}

function figuresOf({ tokens, firstMs, lastMs }: Answer): string {
  const count = tokens === 1 ? "1 token" : `${tokens} tokens`;
  if (firstMs === undefined || lastMs === undefined) return count;
  const rate = lastMs > firstMs ? `, ${((1000 * (tokens - 1)) / (lastMs - firstMs)).toFixed(1)} a second` : "";
  return `${count}${rate}, the first after ${shortTime(firstMs)}`;
}

/** `isOpen`: it still comes, and its figures stand above it until the pane's head has them. */
function Shown({ answer, isOpen = false }: { readonly answer: Answer; readonly isOpen?: boolean }): JSX.Element {
  const { text, thoughts, calls } = answer;
  return (
    <>
      {isOpen && <p class="quiet number">{figuresOf(answer)}</p>}
      {thoughts !== "" && (
        <details>
          <summary>Thoughts</summary>
          <p class="said quiet">{thoughts}</p>
        </details>
      )}
      {text !== "" && <p class="said">{text}</p>}
      {calls.length > 0 && (
        <ul aria-label="Tool calls">
          {calls.map((called, at) => (
            <li key={at}>
              <code>{called.name}</code>
              <pre class="wrapped">{called.arguments}</pre>
            </li>
          ))}
        </ul>
      )}
      {text === "" && calls.length === 0 && !isOpen && <p class="quiet">The answer is empty.</p>}
    </>
  );
}
