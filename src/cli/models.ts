import { factWords, verdictWords } from "../api/catalog-words.ts";
import { nearest } from "../api/nearest.ts";
import { benchmarkCell, benchmarkLines } from "./benchmark.ts";
import { CommandError, type Client } from "./client.ts";
import { bytes, cell, isRecord, render, renderOne, type Column, type Format } from "./output.ts";

const list = (value: unknown): string => (Array.isArray(value) && value.length > 0 ? value.map(cell).join(",") : "-");

const modelColumns: readonly Column[] = [
  { title: "ID", value: (row) => cell(row["id"]) },
  { title: "STATE", value: (row) => cell(row["state"]) },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  { title: "CAPABILITIES", value: (row) => list(row["capabilities"]) },
  { title: "SLOTS", value: (row) => list(row["slots"]) },
  { title: "QUANT", isWide: true, value: (row) => cell(row["quantization"]) },
  { title: "CONTEXT", isWide: true, value: (row) => cell(row["context_length"]) },
  { title: "BENCH TOK/S", isWide: true, value: (row) => benchmarkCell(row["last_benchmark"]) },
  { title: "SOURCE", isWide: true, value: (row) => cell(row["source"]) },
  { title: "MESSAGE", isWide: true, value: (row) => cell(row["message"]) },
];

/** `berth model list`. Throws CommandError. */
export async function modelTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list("/api/models"), modelColumns, format, "id");
}

const catalogColumns: readonly Column[] = [
  { title: "ID", value: (row) => cell(row["id"]) },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  { title: "CAPABILITIES", value: (row) => list(row["capabilities"]) },
  { title: "FIT", value: ({ fit }) => verdictText(fit) },
  { title: "BENCH TOK/S", isWide: true, value: (row) => benchmarkCell(row["last_benchmark"]) },
  { title: "LICENSE", value: (row) => cell(row["license"]) },
  { title: "WHY", isWide: true, value: ({ fit }) => (isRecord(fit) ? whyText(fit) : "-") },
  { title: "MUST ACCEPT", isWide: true, value: (row) => (row["must_accept"] === true ? "yes" : "no") },
  { title: "UNVERIFIED", isWide: true, value: (row) => list(row["unverified"]) },
  { title: "SOURCE", isWide: true, value: (row) => cell(row["source"]) },
  { title: "LICENSE URL", isWide: true, value: (row) => cell(row["license_url"]) },
];

function whyText({ message, check }: Record<string, unknown>): string {
  return typeof check === "string" ? `${cell(message)}; check: ${check}` : cell(message);
}

function verdictText(fit: unknown): string {
  if (!isRecord(fit)) return cell(fit);
  const { verdict, settings } = fit;
  if (!isRecord(settings)) return verdictWords(cell(verdict)).text.toLowerCase();
  const named = Object.entries(settings).map(([key, value]) => `${key} ${cell(value)}`);
  return `fits with ${named.join(", ")}`;
}

/** `berth model catalog`. Throws CommandError. */
export async function catalogTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list("/api/models/catalog"), catalogColumns, format, "id");
}

/** The route of a model: slashes of its ref stay, other special characters are escaped. */
export function modelPath(ref: string): string {
  return `/api/models/${ref.split("/").map(encodeURIComponent).join("/")}`;
}

/** The model, or the entry of the catalogue of that name. Throws CommandError, with the nearest entry of the catalogue. */
async function modelOrEntry(
  client: Client,
  ref: string,
): Promise<{ readonly model: Readonly<Record<string, unknown>>; readonly isEntry: boolean }> {
  try {
    return { model: await client.one(modelPath(ref), "id"), isEntry: false };
  } catch (error) {
    if (!(error instanceof CommandError) || error.code !== "model.not_found") throw error;
    // A service that does not say has an empty catalogue.
    const entries = await client.list("/api/models/catalog").catch(() => []);
    const found = entries.find(({ id }) => id === ref);
    const near =
      found === undefined
        ? nearest(
            ref,
            entries.map(({ id }) => cell(id)),
          )
        : undefined;
    const step = near === undefined ? (ref.includes("/") ? hubStep(ref) : undefined) : entryStep(near);
    if (found === undefined) throw step === undefined ? error : new CommandError(error.code, error.message, step);
    const state = `in the catalogue, and not here: \`berth model pull ${ref}\` fetches it`;
    return { model: { ...found, state }, isEntry: true };
  }
}

/** An entry of the catalogue in the words of the page Models; what is not known is left out. */
function entryFields(entry: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { id, title, capabilities, license, license_url: url, fit, note, unverified, source, state } = entry;
  const why = isRecord(fit) && typeof fit["message"] === "string" ? `: ${fit["message"]}` : "";
  const unlike = Array.isArray(unverified) && unverified.length > 0 ? factWords(unverified.map(cell)) : undefined;
  const fields = {
    id,
    title,
    size: entry["size_bytes"] === undefined ? undefined : bytes(entry["size_bytes"]),
    capabilities,
    license,
    "license url": url,
    "accept it first": entry["must_accept"] === true ? "yes, it forbids some use" : undefined,
    fit: `${verdictText(fit)}${why}`,
    note,
    "not compared": unlike === undefined ? undefined : `${unlike}, with the publisher's page`,
    source,
    state,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

function entryStep(ref: string): string {
  return `the catalogue has ${ref}: \`berth model show ${ref}\`, or \`berth model pull ${ref}\` to fetch it`;
}

function hubStep(ref: string): string {
  return `\`berth model pull ${ref}\` lists what the hub has of that name, and fetches it`;
}

/** `berth model show`: each field on a line of its own. Throws CommandError. */
export async function modelShow(client: Client, ref: string, format: Format): Promise<string> {
  const { model, isEntry } = await modelOrEntry(client, ref);
  if (format === "json" || format === "yaml") return await renderOne(model, format);
  if (format === "name") return `${cell(model["id"])}\n`;
  const { conditionLines } = await import("./conditions.ts");
  const fields = Object.entries(isEntry ? entryFields(model) : model)
    .filter(([key]) => key !== "conditions" && key !== "last_benchmark")
    .map(
      ([key, value]) =>
        `${`${key.replaceAll("_", " ")}:`.padEnd(20)}${Array.isArray(value) ? list(value) : cell(value)}`,
    );
  return [...fields, ...benchmarkLines(model["last_benchmark"]), ...conditionLines(model)]
    .map((line) => `${line}\n`)
    .join("");
}
