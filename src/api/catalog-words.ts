import type { Tone } from "./state-words.ts";

interface VerdictWords {
  readonly text: string;
  readonly tone: Tone;
}

/** Whether a machine can hold a model, the best verdict first. */
const verdicts: ReadonlyMap<string, VerdictWords> = new Map([
  ["fits", { text: "Fits", tone: "good" }],
  ["fits_with", { text: "Fits with other settings", tone: "busy" }],
  ["unknown", { text: "Not known", tone: "off" }],
  ["does_not_fit", { text: "Does not fit", tone: "bad" }],
]);

/** A verdict for a person. A newer server may know others: their own word then. */
export function verdictWords(verdict: string): VerdictWords {
  return verdicts.get(verdict) ?? { text: verdict, tone: "off" };
}

/** The place of a verdict in a list that begins with what fits. */
export function verdictRank(verdict: string): number {
  const order = [...verdicts.keys()];
  return order.includes(verdict) ? order.indexOf(verdict) : order.indexOf("unknown");
}

export function isFitting(verdict: string): boolean {
  return verdict === "fits" || verdict === "fits_with";
}

const facts: ReadonlyMap<string, string> = new Map([
  ["source", "address"],
  ["aboutBytes", "size"],
  ["license", "licence"],
  ["licenseUrl", "address of the licence"],
  ["shape", "memory of its context"],
]);

/** Facts of an entry of the catalogue for a person. A newer server may know others: their own words then. */
export function factWords(names: readonly string[]): string {
  return names.map((name) => facts.get(name) ?? name).join(", ");
}
