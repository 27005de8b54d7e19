import { styleText } from "node:util";
import { byteFigure } from "../api/byte-text.ts";
import { duration } from "../api/duration.ts";

export const formats = ["table", "wide", "json", "yaml", "name"] as const;
export type Format = (typeof formats)[number];

export interface Column<Row = Readonly<Record<string, unknown>>> {
  readonly title: string;
  readonly isWide?: true;
  readonly value: (row: Row) => string;
  /** Only on a terminal, and where NO_COLOR does not forbid it. */
  readonly colour?: (text: string) => "green" | "yellow" | "red" | undefined;
}

/** Rows in the wanted form, ending in a newline. */
export async function render<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  format: Format,
  key: keyof Row,
): Promise<string> {
  switch (format) {
    case "json":
      return `${JSON.stringify({ object: "list", data: rows }, null, 2)}\n`;
    case "yaml": {
      const { stringify } = await import("yaml");
      return stringify({ object: "list", data: rows });
    }
    case "name":
      return rows.map((row) => `${cell(row[key])}\n`).join("");
    case "table":
    case "wide":
      return table(
        rows,
        columns.filter(({ isWide }) => format === "wide" || isWide !== true),
      );
    default:
      return format satisfies never;
  }
}

/** A value for a program, with a newline at its end. */
export async function renderOne(value: unknown, format: "json" | "yaml"): Promise<string> {
  if (format === "json") return `${JSON.stringify(value, null, 2)}\n`;
  const { stringify } = await import("yaml");
  return stringify(value);
}

function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  const lines = [
    columns.map(({ title }) => title),
    ...rows.map((row) => columns.map(({ value }) => printable(value(row)))),
  ];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines
    .map((line, row) =>
      line
        .map((text, index) => {
          const padded = index === line.length - 1 ? text : text.padEnd(widths[index] ?? 0);
          const colour = row === 0 ? undefined : columns[index]?.colour?.(text);
          return colour === undefined ? padded : padded.replace(text, () => coloured(colour, text));
        })
        .join("  ")
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join("");
}

function coloured(colour: "green" | "yellow" | "red", text: string): string {
  return styleText(colour, text, { stream: process.stdout });
}

/** A line without characters that move a terminal's cursor: messages may hold an engine's own words. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, " ");
}

/** A value for a person, on one line: a dash for nothing. */
export function cell(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (typeof value === "string") return printable(value);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return JSON.stringify(value);
}

/** A plain object as JSON has it: no array, not null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The plain objects of a list; none where the value is no list. */
export function recordsIn(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

/** `1.5 GiB`. */
export function bytes(value: unknown): string {
  return typeof value === "number" ? byteFigure(value) : "-";
}

/** `3m12s`. */
export function age(seconds: unknown): string {
  return typeof seconds === "number" ? duration(seconds) : "-";
}
