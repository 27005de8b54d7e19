import { SourceFault } from "./source-text.ts";

/** A key of a section, with its line, from 1 on. */
export interface IniEntry {
  readonly key: string;
  readonly value: string;
  readonly line: number;
}

export interface IniSection {
  readonly name: string;
  readonly line: number;
  readonly entries: readonly IniEntry[];
}

/**
 * The sections of an INI file as llama-server reads them (llama.cpp, common/preset.cpp): `;` and `#` begin comments, also
 * behind a value, and there are no quotes. Keys before the first section are those of a section without a name. Throws
 * CommandError with file and line, without any text of the file.
 */
export function iniSections(file: string, text: string): readonly IniSection[] {
  const sections: (IniSection & { readonly entries: IniEntry[] })[] = [{ name: "", line: 1, entries: [] }];
  for (const [index, raw] of text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const line = index + 1;
    const plain = raw.trim();
    if (plain === "" || /^[;#]/.test(plain)) continue;
    const header = /^\[\s*([^\]]*?)\s*\]\s*(?:[;#].*)?$/.exec(plain);
    const entry = /^([A-Za-z_][\w.-]*)\s*=\s*(.*)$/.exec(plain);
    if (header !== null) sections.push({ name: header[1] ?? "", line, entries: [] });
    else if (entry === null) throw new SourceFault({ file, line: line }, "it is neither [section] nor key = value");
    else
      sections.at(-1)?.entries.push({ key: entry[1] ?? "", value: (entry[2] ?? "").replace(/\s*[;#].*$/, ""), line });
  }
  return sections;
}
