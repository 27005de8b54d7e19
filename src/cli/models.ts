import type { Client } from "./client.ts";
import { bytes, cell, isRecord, render, renderOne, rowsOf, type Column, type Format } from "./output.ts";

const list = (value: unknown): string => (Array.isArray(value) && value.length > 0 ? value.map(cell).join(",") : "-");

export const modelColumns: readonly Column[] = [
  { title: "ID", value: (row) => cell(row["id"]) },
  { title: "STATE", value: (row) => cell(row["state"]) },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  { title: "CAPABILITIES", value: (row) => list(row["capabilities"]) },
  { title: "SLOTS", value: (row) => list(row["slots"]) },
  { title: "QUANT", isWide: true, value: (row) => cell(row["quantization"]) },
  { title: "CONTEXT", isWide: true, value: (row) => cell(row["context_length"]) },
  { title: "SOURCE", isWide: true, value: (row) => cell(row["source"]) },
  { title: "MESSAGE", isWide: true, value: (row) => cell(row["message"]) },
];

export async function modelTable(client: Client, format: Format): Promise<string> {
  return await render(rowsOf(await client.get("/api/models")), modelColumns, format, "id");
}

export async function modelShow(client: Client, ref: string, format: Format): Promise<string> {
  const path = ref.split("/").map(encodeURIComponent).join("/");
  const model = await client.get(`/api/models/${path}`);
  if (!isRecord(model)) return "";
  if (format === "json" || format === "yaml") return await renderOne(model, format);
  if (format === "name") return `${cell(model["id"])}\n`;
  return Object.entries(model)
    .map(
      ([key, value]) =>
        `${`${key.replaceAll("_", " ")}:`.padEnd(20)}${Array.isArray(value) ? list(value) : cell(value)}\n`,
    )
    .join("");
}
