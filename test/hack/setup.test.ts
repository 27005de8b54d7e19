import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

/** Installs two of three packages, and ends once `go` is written to. */
const npm = `#!/bin/sh
[ "$1" = install ] || exit 0
for name in one @scope/two; do mkdir -p "node_modules/$name" && echo {} >"node_modules/$name/package.json"; done
read -r _ <go
`;
const lock = `{
  "packages": {
    "node_modules/one": {
    },
    "node_modules/one/node_modules/nested": {
    },
    "node_modules/@scope/two": {
    },
    "node_modules/three": {
    },
    "node_modules/of-another-machine": {
      "cpu": [
      ]
    }
  }
}
`;

it("make setup counts the packages while npm installs them, and says what it does meanwhile", async () => {
  await using directory = await tempDir();
  const { path } = directory;
  for (const each of ["hack", "engines/node_modules", "bin", "programs"])
    await mkdir(join(path, each), { recursive: true });
  for (const each of [".", "engines"])
    for (const file of ["package.json", "package-lock.json"]) await writeFile(join(path, each, file), lock);
  await copyFile("hack/setup.sh", join(path, "hack/setup.sh"));
  const programs = {
    "programs/npm": npm,
    "programs/node": '#!/bin/sh\n[ "$1" != -p ] || echo 24\n',
    "bin/berth": "#!/bin/sh\n",
  };
  for (const [name, text] of Object.entries(programs)) await writeFile(join(path, name), text, { mode: 0o755 });
  // A pipe, whose reader waits for its writer.
  await new Promise((made) => spawn("mkfifo", [join(path, "go")]).once("exit", made));
  const child = spawn("sh", ["hack/setup.sh"], {
    cwd: path,
    env: { PATH: `${join(path, "programs")}:${process.env["PATH"] ?? ""}` },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  await until("it counts", () => /^ {2}2 of about 3 packages, \d+ s$/m.test(text));
  await writeFile(join(path, "go"), "\n");
  assert.equal(await ended, 0, text);
  assert.deepEqual(
    text.split("\n").filter((line) => !line.includes(" of about ")),
    [
      "looking for the package registry",
      "installing packages (about 500 MB, Node 24 among them): a minute or two, once",
      "building the pages",
      "set up; next: make run",
      "",
    ],
  );
});
