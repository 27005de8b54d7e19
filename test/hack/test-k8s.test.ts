import assert from "node:assert/strict";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { endOf } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const script = fileURLToPath(new URL("../../hack/test-k8s.sh", import.meta.url));

interface Setting {
  /** False: from the beginning, as `make test-k8s` starts it. */
  readonly isInside?: boolean;
  /** The texts of the files in test/k8s, by name. */
  readonly files?: Readonly<Record<string, string>>;
  /** What the lanes run instead of the tests. */
  readonly env?: Readonly<Record<string, string>>;
}

const usualFiles = {
  plane: "sharedPlane()",
  node: "sharedCluster()",
  own: "startCluster()",
  other: "",
} as const;

/** Runs the script with programs that do nothing, and a `node` that prints the files that it is to run. */
async function run({
  isInside = true,
  files = usualFiles,
  env = {},
}: Setting): Promise<{ code: number | null; text: string }> {
  await using directory = await tempDir();
  const { path } = directory;
  for (const each of ["hack", "bin", "node_modules/.bin", "test/k8s", "kube"])
    await mkdir(join(path, each), { recursive: true });
  await copyFile(script, join(path, "hack/test-k8s.sh"));
  const program = async (name: string, lines: string): Promise<void> =>
    await writeFile(join(path, name), `#!/bin/bash\n${lines}\n`, { mode: 0o755 });
  await program("hack/kube.sh", 'echo "$PWD/kube"');
  await program("hack/apt.sh", "");
  await program("bin/id", "echo 0");
  await program("bin/ip", "");
  await program("bin/unshare", "echo unshared");
  const ran = 'for each; do case $each in test/k8s/*) echo "ran $each" ;; esac; done';
  const lane = (name: string, more: string): string => `*"with-shared.ts ${name}"*) eval "$${more}"; ${ran} ;;`;
  await program(
    "node_modules/.bin/node",
    `case "$*" in\n${lane("plane", "PLANE")}\n${lane("cluster", "NODE")}\n*) ${ran} ;;\nesac`,
  );
  for (const [name, text] of Object.entries(files)) await writeFile(join(path, `test/k8s/${name}.test.ts`), text);
  const all = { PATH: `${join(path, "bin")}:${process.env["PATH"]}`, TMPDIR: path, ...env };
  const { code, stdout, stderr } = await endOf(join(path, "hack/test-k8s.sh"), isInside ? ["inside"] : [], all);
  return { code, text: `${stdout}${stderr}`.replaceAll(path, "") };
}

const ran = (text: string): readonly string[] =>
  [...text.matchAll(/^ran test\/k8s\/(.*)\.test\.ts$/gm)].map(([, name = ""]) => name);

describe("make test-k8s", () => {
  it("runs each file once", async () => {
    const { code, text } = await run({});
    assert.equal(code, 0, text);
    assert.deepEqual(ran(text).toSorted(), Object.keys(usualFiles).toSorted());
  });

  it("runs nothing where a file would run twice, or not at all", async () => {
    for (const [files, name] of [
      [{ ...usualFiles, both: "sharedPlane() sharedCluster()" }, "both"],
      [{ ...usualFiles, other: "sharedPlane() startCluster()", last: "" }, "other"],
    ] as const) {
      const { code, text } = await run({ files });
      assert.equal(code, 1);
      const said = "make test-k8s: these files would run twice, or not at all:";
      assert.equal(text, `${said}\ntest/k8s/${name}.test.ts\n`);
    }
  });

  it("lets the lane with the node clean up where the other fails, and prints both", async () => {
    const { code, text } = await run({
      env: {
        NODE: 'trap "echo cleaned up; exit 1" TERM; echo a node is not ok; >began; while :; do sleep 0.05; done',
        PLANE: "until [ -e began ]; do sleep 0.05; done; echo a plane is not ok; exit 1",
      },
    });
    assert.equal(code, 1);
    assert.match(
      text,
      /^a plane is not ok\na node is not ok\ncleaned up\nmake test-k8s: tests failed that need an API server.*\n$/,
    );
  });

  it("prints the failures of the lane with the node", async () => {
    const { code, text } = await run({ env: { NODE: "echo a node is not ok; exit 1" } });
    assert.equal(code, 1);
    assert.match(text, /\na node is not ok\nmake test-k8s: tests failed that need a node\n$/);
    assert.deepEqual(ran(text).toSorted(), ["other", "plane"]);
  });

  it("says that there is no helm beside the programs of Kubernetes, and takes the one that is named", async () => {
    assert.deepEqual(await run({ isInside: false }), {
      code: 1,
      text: "make test-k8s: no helm at /kube/helm; BERTH_TEST_HELM names another\n",
    });
    const env = { BERTH_TEST_HELM: "/bin/true", BERTH_TEST_HELM4: "/bin/true" };
    assert.deepEqual(await run({ isInside: false, env }), {
      code: 0,
      text: "unshared\n",
    });
  });
});
