import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { answerOf } from "../../shared/api.ts";
import { bodyOf, linesOf, paths } from "./example.ts";
import { ModelField, TextField } from "./fields.tsx";
import { RunForm, useRun } from "./run.tsx";
import { similaritiesOf } from "./similarity.ts";

/** Texts of the table, whose cells grow with their square. */
const mostCompared = 50;

interface Compared {
  /** The texts of the table. */
  readonly input: readonly string[];
  /** Of all texts. */
  readonly vectors: number;
  readonly dimensions: number;
  readonly similarities: readonly (readonly number[])[];
}

/** Several texts, and how alike they are to the model. */
export function Embeddings(): JSX.Element {
  const [model, setModel] = useState("");
  const [text, setText] = useState("A ship in the harbour\nA boat at the quay\nA cake in the oven");
  const input = linesOf(text);
  const example = { kind: "embeddings", model, input } as const;
  const run = useRun(async (signal): Promise<Compared> => {
    const { data } = await answerOf<{ data: readonly { index: number; embedding: readonly number[] }[] }>(
      paths.embeddings,
      { method: "POST", body: bodyOf(example), signal },
    );
    const vectors = data.toSorted((a, b) => a.index - b.index).map(({ embedding }) => embedding);
    // Once, and not with each letter that is typed above the table.
    const similarities = similaritiesOf(vectors.slice(0, mostCompared));
    return {
      input: input.slice(0, mostCompared),
      vectors: vectors.length,
      dimensions: vectors[0]?.length ?? 0,
      similarities,
    };
  });
  return (
    <RunForm
      example={example}
      run={run}
      action="Embed"
      disabled={model === "" || input.length === 0}
      show={(found) => <Similarities found={found} />}
    >
      <ModelField capability="embeddings" value={model} onChange={setModel} />
      <TextField label="Texts, one a line" rows={5} value={text} onInput={setText} />
    </RunForm>
  );
}

function Similarities({ found }: { readonly found: Compared }): JSX.Element {
  const { input, vectors, dimensions, similarities } = found;
  return (
    <>
      <p>
        {vectors} vectors of {dimensions} numbers. The table has the cosine of each pair
        {vectors > input.length && ` of the first ${input.length}`}: 1 for the same direction, 0 for nothing in common.
      </p>
      <div class="wide">
        <table aria-label="Similarity">
          <thead>
            <tr>
              <th scope="col">Text</th>
              {input.map((text, column) => (
                <th key={column} scope="col" title={text}>
                  {column + 1}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {input.map((text, row) => (
              <tr key={row}>
                <th scope="row">
                  {row + 1}. {text}
                </th>
                {input.map((_, column) => (
                  <td key={column} class="figure">
                    {(similarities[row]?.[column] ?? 0).toFixed(3)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface Ranked {
  readonly documents: readonly string[];
  readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
}

/** Documents in the order in which they answer a question. */
export function Rerank(): JSX.Element {
  const [model, setModel] = useState("");
  const [query, setQuery] = useState("Where does the ship lie?");
  const [text, setText] = useState("The cake is in the oven.\nThe ship lies at the quay.\nShips are built of steel.");
  const documents = linesOf(text);
  const example = { kind: "rerank", model, query, documents } as const;
  const run = useRun(async (signal): Promise<Ranked> => {
    const body = bodyOf(example);
    const { results } = await answerOf<Pick<Ranked, "results">>(paths.rerank, { method: "POST", body, signal });
    return { documents, results: results.toSorted((a, b) => b.relevance_score - a.relevance_score) };
  });
  return (
    <RunForm
      example={example}
      run={run}
      action="Rank"
      disabled={model === "" || documents.length === 0 || query.trim() === ""}
      show={(found) => (
        <ol aria-label="Ranking">
          {found.results.map(({ index, relevance_score: score }) => (
            <li key={index}>
              {found.documents[index]} <span class="quiet figure">{score.toFixed(4)}</span>
            </li>
          ))}
        </ol>
      )}
    >
      <ModelField capability="rerank" value={model} onChange={setModel} />
      <TextField label="Query" value={query} onInput={setQuery} />
      <TextField label="Documents, one a line" rows={5} value={text} onInput={setText} />
    </RunForm>
  );
}
