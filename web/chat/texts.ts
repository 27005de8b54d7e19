/** More would fill most models' context. */
const longestBytes = 256 * 1024;
/** Browsers know no type for most of them. */
const ending =
  /\.(?:bat|c|cc|cfg|conf|cpp|cs|css|csv|diff|env|go|h|hpp|html?|ini|java|jsx?|jsonl?|kt|log|lua|md|mjs|patch|php|pl|ps1|py|rb|rs|rst|sh|sql|swift|tex|toml|tsv|tsx?|txt|vue|xml|ya?ml)$/i;

export const isText = ({ name, type }: File): boolean => type.startsWith("text/") || ending.test(name);

/** A file as a code block under its name. Throws where it is too large, or no text. */
export async function textOf(file: File): Promise<string> {
  if (file.size > longestBytes) throw new Error(`${file.name} is larger than 256 KiB; attach a part of it.`);
  const text = await file.text();
  if (text.includes("\0")) throw new Error(`${file.name} is no text.`);
  const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 2);
  const fence = "`".repeat(longest + 1);
  return `${file.name}:\n${fence}${/\w+$/.exec(file.name)?.[0] ?? ""}\n${text.trimEnd()}\n${fence}\n`;
}
