import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { base, exchange } from "../../shared/api.ts";
import { readAnswer, type RawAnswer } from "./answer-text.ts";
import { addressOf, jsonIn, type Example } from "./example.ts";
import { JsonField, TextField } from "./fields.tsx";
import { RunForm, useRun } from "./run.tsx";

const methods = ["GET", "POST", "PUT", "DELETE"] as const;
const usualBody = '{"model": "primary", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16}';

/** Any request to this server, and its whole answer. */
export function Raw(): JSX.Element {
  const [method, setMethod] = useState<(typeof methods)[number]>("GET");
  const [path, setPath] = useState("/v1/models");
  const [text, setText] = useState("");
  const [soFar, setSoFar] = useState<RawAnswer>();
  const body = method === "GET" || text.trim() === "" ? undefined : text;
  const run = useRun(async (signal) => {
    setSoFar(undefined);
    const url = addressOf(path, base);
    const raw = body === undefined ? {} : { raw: { content: body, type: "application/json" } };
    return await readAnswer(await exchange(url, { method, signal, ...raw }), (answer) => {
      if (!signal.aborted) setSoFar(answer);
    });
  });
  const example = exampleOf(method, path, body);
  const choose = (next: string): void => {
    const known = methods.find((each) => each === next) ?? "GET";
    setMethod(known);
    if (known === "POST" && path === "/v1/models" && text === "") {
      setPath("/v1/chat/completions");
      setText(usualBody);
    }
  };
  return (
    <RunForm
      example={example}
      run={run}
      action="Send"
      show={(answer) => <Answer answer={answer} />}
      statusOf={({ status }) => status}
      soFar={soFar === undefined ? undefined : <Answer answer={soFar} />}
    >
      <label>
        Method
        <select value={method} onChange={(event) => choose(event.currentTarget.value)}>
          {methods.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <TextField label="Path" value={path} onInput={setPath} />
      {method !== "GET" && (
        <JsonField label="JSON body" rows={8} value={text} error={jsonIn(text, "any").error} onInput={setText} />
      )}
    </RunForm>
  );
}

function exampleOf(method: string, path: string, body: string | undefined): Example | undefined {
  try {
    return { kind: "raw", method, url: addressOf(path, base), body };
  } catch {
    return undefined;
  }
}

function Answer({ answer: { headers, text, isCut } }: { readonly answer: RawAnswer }): JSX.Element {
  return (
    <>
      <div class="wide">
        <table aria-label="Headers">
          <tbody>
            {headers.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <pre class="answer" aria-label="Body of the answer" tabIndex={0}>
        {text}
      </pre>
      {isCut && <p role="status">More came, which is not shown here. The snippets in Code show all of it.</p>}
    </>
  );
}
