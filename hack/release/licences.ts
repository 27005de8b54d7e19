import { execFileSync } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { LockedPackage } from "./packages.ts";
import { ran } from "./ran.ts";
import { llamaBundle, llamaRelease, type Shipped } from "./shipped.ts";

/** A part of a release with the texts of its licence. */
interface Part {
  readonly title: string;
  readonly texts: readonly string[];
}

const rule = `${"=".repeat(100)}\n`;
const licenceFile = /^(licen[cs]e|copying|notice)/i;
const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software
is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES
OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE
LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR
IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`;
const isc = `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted,
provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED
WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR
CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT,
NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`;

/** Packages that bring no text of their licence: their package.json names the licence, and its text is the common one. */
const textless: Readonly<Record<string, { readonly license: string; readonly holder: string; readonly text: string }>> =
  {
    "abstract-logging": { license: "MIT", holder: "James Sumners", text: mit },
    "split-ca": { license: "ISC", holder: "Charles Bushong", text: isc },
    "simple-git": { license: "MIT", holder: "Steve King", text: mit },
    "@simple-git/argv-parser": { license: "MIT", holder: "Steve King", text: mit },
  };

/**
 * Every licence text of a release as one page. Throws where a package brings none and nothing is known of it. `work`: a
 * directory for the sources of llama.cpp.
 */
export async function licencesOf(
  { program, pages, enginePackages, node, places }: Shipped,
  work: string,
): Promise<string> {
  const parts: Part[] = [];
  const missing: string[] = [];
  const take = async (each: LockedPackage, title: string): Promise<void> => {
    const texts = await textsIn(places.get(each) ?? "");
    const known = textless[each.name];
    if (texts.length === 0 && known?.license === each.license)
      texts.push(`${known.license} License\n\nCopyright (c) ${known.holder}\n\n${known.text}`);
    if (texts.length === 0) missing.push(`${each.name} ${each.version}`);
    parts.push({ title, texts });
  };
  await take(node, `Node.js ${node.version}`);
  for (const each of [...program, ...pages, ...enginePackages])
    await take(each, `${each.name} ${each.version} (${each.license})`);
  if (missing.length > 0) throw new Error(`these packages have no licence text: ${missing.join(", ")}`);
  const { tag } = await llamaRelease();
  return pageOf([...parts, { title: `llama.cpp ${tag}`, texts: await llamaTexts(work) }]);
}

/** Parts with the same text stand above it together. */
function pageOf(parts: readonly Part[]): string {
  const titles = new Map<string, Set<string>>();
  for (const { title, texts } of parts) {
    const text = texts.join("\n");
    titles.set(text, (titles.get(text) ?? new Set()).add(title));
  }
  const head = "Berth's own licence is in LICENSE. This page has the licences of the software that comes with it.\n\n";
  return head + [...titles].map(([text, above]) => `${rule}${[...above].join("\n")}\n${rule}\n${text}\n`).join("");
}

async function textsIn(directory: string): Promise<string[]> {
  const names = (await readdir(directory, { withFileTypes: true }))
    .filter((entry) => entry.isFile() && licenceFile.test(entry.name))
    .map(({ name }) => name);
  const texts = await Promise.all(names.toSorted().map(async (name) => await readFile(join(directory, name), "utf8")));
  return texts.map((text) => `${text.replaceAll("\r\n", "\n").trim()}\n`);
}

/** The licence of llama.cpp and those of the sources that it brings, from the bundle of its sources. */
async function llamaTexts(work: string): Promise<readonly string[]> {
  const repository = join(work, "llama.git");
  await ran("git", ["clone", "--quiet", "--bare", llamaBundle, repository]);
  const git = (...args: string[]): string =>
    execFileSync("git", ["-C", repository, ...args], { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  const paths = git("ls-tree", "-r", "--name-only", "HEAD", "LICENSE", "licenses/", "vendor/").trim().split("\n");
  const texts = paths
    .filter((path) => licenceFile.test(path.split("/").at(-1) ?? ""))
    .map((path) => `${path}:\n\n${git("show", `HEAD:${path}`).trim()}\n`);
  if (texts.length === 0) throw new Error("the sources of llama.cpp have no licence text");
  return texts;
}
