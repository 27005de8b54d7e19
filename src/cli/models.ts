import { factWords, verdictWords } from "../api/catalog-words.ts";
import { nearest } from "../api/nearest.ts";
import { benchmarkCell, benchmarkLines } from "./benchmark.ts";
import { CommandError, type Client } from "./client.ts";
import type { CatalogView, ModelView } from "../api/management/views.ts";
import { bytes, cell, render, renderOne, type Column, type Format } from "./output.ts";
import type { Received } from "./received.ts";

type Model = Received<ModelView>;
type Entry = Received<CatalogView>;

const list = (words: readonly unknown[] | null | undefined): string => cell(words?.map(cell).join(","));

const modelColumns: readonly Column<Model>[] = [
  { title: "ID", value: (row) => cell(row.id) },
  { title: "STATE", value: (row) => cell(row.state) },
  { title: "SIZE", value: (row) => bytes(row.size_bytes) },
  { title: "CAPABILITIES", value: (row) => list(row.capabilities) },
  { title: "SLOTS", value: (row) => list(row.slots) },
  { title: "QUANT", isWide: true, value: (row) => cell(row.quantization) },
  { title: "CONTEXT", isWide: true, value: (row) => cell(row.context_length) },
  { title: "BENCH TOK/S", isWide: true, value: (row) => benchmarkCell(row.last_benchmark) },
  { title: "SOURCE", isWide: true, value: (row) => cell(row.source) },
  { title: "MESSAGE", isWide: true, value: (row) => cell(row.message) },
];

/** `berth model list`. Throws CommandError. */
export async function modelTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list("GET /api/models"), modelColumns, format, "id");
}

const catalogColumns: readonly Column<Entry>[] = [
  { title: "ID", value: (row) => cell(row.id) },
  { title: "SIZE", value: (row) => bytes(row.size_bytes) },
  { title: "CAPABILITIES", value: (row) => list(row.capabilities) },
  { title: "FIT", value: ({ fit }) => verdictText(fit) },
  { title: "BENCH TOK/S", isWide: true, value: (row) => benchmarkCell(row.last_benchmark) },
  { title: "LICENSE", value: (row) => cell(row.license) },
  { title: "WHY", isWide: true, value: ({ fit }) => whyText(fit ?? {}) },
  { title: "MUST ACCEPT", isWide: true, value: (row) => (row.must_accept === true ? "yes" : "no") },
  { title: "UNVERIFIED", isWide: true, value: (row) => list(row.unverified) },
  { title: "SOURCE", isWide: true, value: (row) => cell(row.source) },
  { title: "LICENSE URL", isWide: true, value: (row) => cell(row.license_url) },
];

function whyText({ message, check }: NonNullable<Entry["fit"]>): string {
  return typeof check === "string" ? `${cell(message)}; check: ${check}` : cell(message);
}

function verdictText(fit: Entry["fit"]): string {
  const { verdict, settings } = fit ?? {};
  if (settings === undefined || settings === null) return verdictWords(cell(verdict)).text.toLowerCase();
  const named = Object.entries(settings).map(([key, value]) => `${key} ${cell(value)}`);
  return `fits with ${named.join(", ")}`;
}

/** `berth model catalog`. Throws CommandError. */
export async function catalogTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list("GET /api/models/catalog"), catalogColumns, format, "id");
}

/** The model, or the entry of the catalogue of that name. Throws CommandError, with the nearest entry of the catalogue. */
async function modelOrEntry(
  client: Client,
  ref: string,
): Promise<{ readonly model: Model } | { readonly entry: Entry & { readonly state: string } }> {
  try {
    return { model: await client.one("GET /api/models/{ref}", "id", { params: { ref } }) };
  } catch (error) {
    if (!(error instanceof CommandError) || error.code !== "model.not_found") throw error;
    // A service that does not say has an empty catalogue.
    const entries = await client.list("GET /api/models/catalog").catch(() => []);
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
    return { entry: { ...found, state } };
  }
}

/** An entry of the catalogue in the words of the page Models; what is not known is left out. */
function entryFields(entry: Entry & { readonly state: string }): Readonly<Record<string, unknown>> {
  const { id, title, capabilities, license, license_url: url, fit, note, unverified, source, state } = entry;
  const { size_bytes: size } = entry;
  const why = typeof fit?.message === "string" ? `: ${fit.message}` : "";
  const unlike = factWords(unverified ?? []);
  const fields = {
    id,
    title,
    size: typeof size === "number" ? bytes(size) : undefined,
    capabilities,
    license,
    "license url": url,
    "accept it first": entry.must_accept === true ? "yes, it forbids some use" : undefined,
    fit: `${verdictText(fit)}${why}`,
    note,
    "not compared": unlike === "" ? undefined : `${unlike}, with the publisher's page`,
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
  const found = await modelOrEntry(client, ref);
  const shown = "model" in found ? found.model : found.entry;
  if (format === "json" || format === "yaml") return await renderOne(shown, format);
  if (format === "name") return `${cell(shown.id)}\n`;
  const { conditionLines } = await import("./conditions.ts");
  const fields = Object.entries<unknown>("model" in found ? found.model : entryFields(found.entry))
    .filter(([key]) => key !== "conditions" && key !== "last_benchmark")
    .map(
      ([key, value]) =>
        `${`${key.replaceAll("_", " ")}:`.padEnd(20)}${Array.isArray(value) ? list(value) : cell(value)}`,
    );
  return [...fields, ...benchmarkLines(shown.last_benchmark), ...("model" in found ? conditionLines(found.model) : [])]
    .map((line) => `${line}\n`)
    .join("");
}
