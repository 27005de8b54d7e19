import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { readStream } from "../../shared/answer-stream.ts";
import { request } from "../../shared/api.ts";
import { shortTime } from "../../shared/format.ts";
import { bodyOf, paths, type Example, type JsonExample } from "./example.ts";
import { ModelField, OtherModelField, TextField } from "./fields.tsx";
import { RunForm, useRun, type Run } from "./run.tsx";

interface Answer {
  readonly text: string;
  readonly tokens: number;
  readonly firstMs: number;
  readonly ms: number;
}

/** One question and its answer, as a program asks it, of one model or of two beside each other. */
export function Chat(): JSX.Element {
  const [model, setModel] = useState("");
  const [other, setOther] = useState("");
  const [system, setSystem] = useState("");
  const [question, setQuestion] = useState("Write one sentence about a harbour.");
  const [temperature, setTemperature] = useState("");
  const example = { kind: "chat", model, system, question, temperature } as const satisfies Example;
  const first = useAnswer(example);
  const second = useAnswer({ ...example, model: other });
  return (
    <RunForm
      example={example}
      {...first}
      action="Ask"
      disabled={model === "" || question.trim() === ""}
      show={({ text }) => <p class="said">{text}</p>}
      figuresOf={figuresOf}
      second={other === "" ? undefined : { ...second, names: [model, other] }}
    >
      <ModelField capability="chat" value={model} onChange={setModel} />
      <OtherModelField capability="chat" than={model} value={other} onChange={setOther} />
      <TextField label="Question" rows={5} value={question} onInput={setQuestion} />
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
    </RunForm>
  );
}

/** The request, and its answer as it comes. */
function useAnswer(example: JsonExample): { readonly run: Run<Answer>; readonly soFar: JSX.Element | undefined } {
  const [soFar, setSoFar] = useState<Answer>();
  const run = useRun(async (signal): Promise<Answer> => {
    setSoFar(undefined);
    const began = performance.now();
    const body = { ...bodyOf(example), stream: true, stream_options: { include_usage: true } };
    const response = await request(paths.chat, { method: "POST", body, signal });
    let answer: Answer = { text: "", tokens: 0, firstMs: 0, ms: 0 };
    for await (const { delta, tokens } of readStream(response, signal)) {
      if (tokens !== undefined) answer = { ...answer, tokens };
      const text = delta?.content ?? "";
      if (text === "") continue;
      const ms = performance.now() - began;
      const firstMs = answer.tokens === 0 ? ms : answer.firstMs;
      answer = { text: answer.text + text, tokens: answer.tokens + 1, firstMs, ms };
      if (!signal.aborted) setSoFar(answer);
    }
    return answer;
  });
  const shown = soFar !== undefined && (
    <>
      <p class="quiet number">{figuresOf(soFar)}</p>
      <p class="said">{soFar.text}</p>
    </>
  );
  return { run, soFar: shown === false ? undefined : shown };
}

function figuresOf({ tokens, firstMs, ms }: Answer): string {
  const rate = ms > firstMs ? `, ${((1000 * (tokens - 1)) / (ms - firstMs)).toFixed(1)} a second` : "";
  return `${tokens === 1 ? "1 token" : `${tokens} tokens`}${rate}, the first after ${shortTime(firstMs)}`;
}
