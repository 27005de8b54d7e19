import { z } from "zod";

/** A manifest as its file has it. */
export const manifestTextSchema = z.strictObject({
  text: z.string(),
  hash: z.string().describe("SHA-256 of the text that it replaces, as it was read"),
});
export const manifestViewSchema = z.strictObject({
  file: z.string().describe("Relative to the configuration directory"),
  text: z.string(),
  hash: z.string(),
  read_only: z.string().nullable().describe("Why it may not be written here; null: it may"),
});
export type ManifestView = z.output<typeof manifestViewSchema>;
