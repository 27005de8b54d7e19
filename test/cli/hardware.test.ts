import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { hardwareSchema, type Hardware, type HardwareFacts } from "../../src/api/hardware.ts";
import { hardwareText } from "../../src/cli/hardware.ts";
import { withSuggestions } from "../../src/engines/suggestion.ts";
import { apu, device, gpu, kernel } from "../hardware/parts.ts";
import { pcFacts } from "../hardware/tree.ts";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { freePort } from "../support/free-port.ts";
import { tempDir } from "../support/temp-dir.ts";
import { done, failed, refused, told } from "./fixture.ts";

const gib = 1024 ** 3;
const asking = "/api/hardware/probe?wait=settled&timeout=30";
const bare: Hardware & { pending: boolean } = { ...withSuggestions(pcFacts), pending: false };

const workstation: HardwareFacts = {
  ...pcFacts,
  cpu: { ...pcFacts.cpu, usable: 1.5 },
  memory: { ...pcFacts.memory, limit_bytes: 4 * gib, usable_bytes: 4 * gib, swap_bytes: 2 * gib },
  gpus: [
    { ...apu, name: null, evidence: apu.evidence.slice(0, 1) },
    gpu({ id: "0000:01:00.0", vendor: "nvidia", name: "RTX\u001b[31m 4090", evidence: [] }),
  ],
  npu: { vendor: "amd", vendor_id: "1022", device_id: "17f0", name: null, driver: null, device: null, evidence: [] },
  devices: [
    device("/dev/kfd", { gid: 109, group: null }),
    device("/dev/dri/renderD128", { gid: 44, group: "video", accessible: false, problem: "exists, but not for uid 1" }),
  ],
  drivers: [kernel("amdgpu"), { name: "rocm", kind: "library", version: "6.2.0", source: "/opt/rocm/.info/version" }],
  problems: [{ source: "/sys/class/accel", says: "cannot be read: EACCES" }],
};

describe("hardware as text", () => {
  it("lists a machine with every kind of device, with the source of each fact", async () => {
    const wide = await hardwareText(withSuggestions(workstation), "wide");
    assert.equal(
      wide,
      `cpu       Example 3000 (x64), 2 cores, 2 threads, 1.5 of them to be used; sse4_2 avx fma avx2
            /proc/cpuinfo: 2 processors, Example 3000
memory    16.0 GiB, limited to 4.0 GiB, 8.0 GiB available, 2.0 GiB swap
            /proc/meminfo: MemTotal 16777216 kB
gpu       0000:c5:00.0 amd 15bf, gfx1103, 1.0 GiB, 8.0 GiB shared, driver amdgpu, rocm vulkan
            /sys/bus/pci/devices/0000:c5:00.0: 1002:15bf, driver amdgpu
gpu       0000:01:00.0 RTX [31m 4090, no driver, no backend
npu       amd 17f0, no driver, no device
disk      state: 50.0 GiB free of 100.0 GiB (/state)
disk      models: 50.0 GiB free of 100.0 GiB (/models)
driver    amdgpu (/sys/module/amdgpu)
driver    rocm 6.2.0 (/opt/rocm/.info/version)
device    /dev/kfd 0660 109
device    /dev/dri/renderD128 0660 video: exists, but not for uid 1
problem   /sys/class/accel: cannot be read: EACCES

ENGINE  BACKEND  WHY
llama   vulkan   there is a render node in /dev/dri, but /dev/dri/renderD128 exists, but not for uid 1
        /dev/dri/renderD128: amd 15bf, driver amdgpu
npu     npu      the only backend of the npu engine, but there is no /dev/accel/accel0
stt     cpu      the only backend of the stt engine
tts     cpu      the only backend of the tts engine
image   rocm     there is /dev/kfd, but /dev/dri/renderD128 exists, but not for uid 1
        /dev/kfd: is there
        /dev/dri/renderD128: amd 15bf, driver amdgpu
custom  cpu      a custom engine gets the devices that its manifest names

looked at 2026-01-01T00:00:00.000Z as uid 1000, groups 1000, kernel 6.12.0
`,
    );
    const withoutSources = wide.replaceAll(/^ {8}.*\n/gm, "").replaceAll(/^(driver .*) \(.*\)$/gm, "$1");
    assert.equal(await hardwareText(withSuggestions(workstation), "table"), withoutSources);
  });

  it("lists an answer that lacks fields which this version knows", async () => {
    assert.equal(
      await hardwareText({}, "table"),
      `cpu       - (-), - cores, - threads
memory    -, - available, - swap
gpu       none
npu       none
disk      none
driver    none
device    none

ENGINE  BACKEND  WHY

looked at - as -, kernel -
`,
    );
  });
});

describe("berth probe", () => {
  const never = "no operator of this version has probed this machine yet; the first to start does";
  const notFound = refused(404, "system.not_found", never);

  it("requests a probe, waits for its result and prints it", async () => {
    const { ended, asked } = await told({ [asking]: bare }, "probe");
    assert.deepEqual([ended, asked], [done(await hardwareText(bare, "table")), [`POST ${asking}`]]);
    assert.match(ended.stdout, /^memory +16\.0 GiB, 8\.0 GiB available, no swap\ngpu +none$/m);
  });

  it("prints the answer itself as JSON and YAML, and takes no other form", async () => {
    const answers = { [asking]: bare };
    assert.deepEqual((await told(answers, "probe -o json")).ended, done(`${JSON.stringify(bare, null, 2)}\n`));
    assert.deepEqual(parse((await told(answers, "probe -o yaml")).stdout), bare);
    const name = await told(answers, "probe -o name");
    assert.equal(name.code, 2);
    assert.match(name.stderr, /Allowed choices are table, wide, json, yaml/);
  });

  it("says that no operator has answered, and prints an earlier operator's result", async () => {
    const { ended } = await told({ [asking]: { ...bare, pending: true } }, "probe");
    const note = "no operator has answered: this is an earlier operator's result\n";
    assert.deepEqual(ended, done(await hardwareText(bare, "table"), note));
  });

  it("does not probe this machine in place of another one", async () => {
    const next = "start an operator there; if one runs, it may be older than this command";
    assert.deepEqual(
      (await told({ [asking]: notFound }, "probe")).ended,
      failed(`system.not_found: ${never}\n${next}\n`),
    );
    const { code, stderr } = await runBerth(["--server", `http://127.0.0.1:${await freePort()}`, "probe"]);
    assert.equal(code, 1);
    assert.match(stderr, /^unreachable: nothing answers at /);
  });

  for (const [where, answer, note] of [
    ["no service runs", undefined, "nothing answers at http://127.0.0.1:PORT"],
    ["a service without an operator runs", { ...bare, pending: true }, "no operator has answered"],
    ["no operator has probed yet", notFound, "no operator has probed this machine yet"],
  ] as const)
    it(`probes by itself where ${where} on this machine, and says so`, async () => {
      await using directory = await tempDir();
      await using api = await apiDouble(answer === undefined ? {} : { [asking]: answer });
      const port = answer === undefined ? String(await freePort()) : new URL(api.url).port;
      const env = { SVC_PORT: port, SVC_STATE_DIR: directory.path, SVC_CONFIG_DIR: directory.path };
      const { code, stdout, stderr } = await runBerth(["probe", "-o", "json"], env);
      const said = `${note.replace("PORT", port)}: this is the command's own probe, as its own user\n`;
      assert.deepEqual([code, stderr], [0, said]);
      const found = hardwareSchema.parse(JSON.parse(stdout));
      assert.equal(found.disks[0]?.path, directory.path);
      assert.ok((found.cpu.threads ?? 0) > 0);
    });
});
