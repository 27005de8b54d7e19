import assert from "node:assert/strict";
import { it } from "node:test";
import { strategicMerge } from "../../../src/runtimes/kubernetes/merge.ts";

const pod = {
  spec: {
    restartPolicy: "Always",
    containers: [{ name: "engine", image: "x", env: [{ name: "A", value: "1" }], args: ["--a", "--b"] }],
    volumes: [{ name: "tmp", emptyDir: {} }],
  },
};

const merges: readonly [title: string, patch: unknown, expected: unknown][] = [
  [
    "containers are merged by name, their variables too",
    { spec: { containers: [{ name: "engine", env: [{ name: "B", value: "2" }] }] } },
    {
      spec: {
        ...pod.spec,
        containers: [
          {
            ...pod.spec.containers[0],
            env: [
              { name: "A", value: "1" },
              { name: "B", value: "2" },
            ],
          },
        ],
      },
    },
  ],
  [
    "a list without a merge key is replaced whole",
    { spec: { containers: [{ name: "engine", args: ["--c"] }], tolerations: [{ key: "gpu" }] } },
    {
      spec: { ...pod.spec, containers: [{ ...pod.spec.containers[0], args: ["--c"] }], tolerations: [{ key: "gpu" }] },
    },
  ],
  [
    "an element is deleted as kubectl patch does",
    { spec: { volumes: [{ $patch: "delete", name: "tmp" }] } },
    { spec: { ...pod.spec, volumes: [] } },
  ],
  ["a map is emptied as kubectl patch does", { spec: { $patch: "delete", containers: [] } }, { spec: {} }],
  [
    "a list is replaced by a directive alone",
    { spec: { volumes: [{ $patch: "replace" }, { name: "a" }] } },
    { spec: { ...pod.spec, volumes: [{ name: "a" }] } },
  ],
  [
    "an element without its key is left to the API server to refuse",
    { spec: { volumes: [{ emptyDir: {} }, "tmp"] } },
    { spec: { ...pod.spec, volumes: [...pod.spec.volumes, { emptyDir: {} }, "tmp"] } },
  ],
  [
    "a map is replaced as kubectl patch does",
    { spec: { containers: [{ name: "engine", $patch: "replace", image: "z" }] } },
    { spec: { ...pod.spec, containers: [{ name: "engine", image: "z" }] } },
  ],
];

for (const [title, patch, expected] of merges) {
  it(title, () => {
    const before = structuredClone(pod);
    assert.deepEqual(strategicMerge(pod, patch), expected);
    assert.deepEqual(pod, before, "the generated Pod itself is not changed");
  });
}
