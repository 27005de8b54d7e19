import { verdictWords } from "../api/catalog-words.ts";
import { CommandError } from "./client.ts";
import { bytes, cell, isRecord, recordsIn, render, type Column } from "./output.ts";

type Choice = Readonly<Record<string, unknown>>;

function fitText({ fit, is_projector: isProjector }: Choice): string {
  if (isProjector === true) return "projector";
  const verdict = isRecord(fit) ? fit["verdict"] : undefined;
  return typeof verdict === "string" && verdict !== "unknown" ? verdictWords(verdict).text.toLowerCase() : "-";
}

const columns: readonly Column[] = [
  { title: "QUANT", value: (row) => cell(row["quantization"]) },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  { title: "FIT", value: fitText },
  { title: "NAME", value: (row) => cell(row["name"]) },
];

/**
 * The table of the models between which a person must choose, with how. Undefined for an error that lists no models.
 */
export async function choicesText(typed: string, error: unknown): Promise<string | undefined> {
  const details = error instanceof CommandError && isRecord(error.details) ? error.details : {};
  const choices = recordsIn(details["choices"]);
  const example = choices.find((choice) => choice["is_projector"] !== true);
  if (!(error instanceof CommandError) || example === undefined) return undefined;
  const { left_out: leftOut } = details;
  const more = typeof leftOut === "number" && leftOut > 0 ? `and ${leftOut} more\n` : "";
  const isUnknown = error.code === "model.not_found";
  const head = isUnknown ? `usage: nothing is called ${typed}; there is` : `usage: ${typed} stands for several models`;
  const how = `choose one of them: \`berth model pull ${cell(example["name"])}\`\n`;
  return `${head}:\n${await render(choices, columns, "table", "name")}${more}${how}`;
}
