import type { Command } from "commander";
import type { CommandContext } from "../../cli/context.ts";
import { withExamples } from "../../cli/options.ts";
import { renderOne } from "../../cli/output.ts";

const formats = ["table", "json", "yaml"] as const;

/** `berth doctor`: checks this machine, also with nothing running. Exit code 1 where a check fails. */
export function addDoctorCommand(program: Command, { env, write, exit }: CommandContext): void {
  const doctor = program
    .command("doctor")
    .description("check this machine: settings, manifests, state, ports, engines, devices; with remedies")
    .addOption(
      program
        .createOption("-o, --output <format>", "form of the output")
        .choices([...formats])
        .default("table"),
    )
    .action(async ({ output }: { output: (typeof formats)[number] }) => {
      const { doctorFindings } = await import("./doctor.ts");
      const { findingText } = await import("./finding.ts");
      const { findEmbedded } = await import("../../program/embedded.ts");
      const { hardwareProbe } = await import("../../program/hardware.ts");
      const counts = { ok: 0, warn: 0, fail: 0 };
      const findings = [];
      for await (const finding of doctorFindings({
        env,
        nodeVersion: process.versions.node,
        uid: process.getuid?.(),
        embedded: findEmbedded,
        probe: async ({ config }) => await (await hardwareProbe(config))(undefined),
        now: () => Date.now(),
      })) {
        counts[finding.status] += 1;
        findings.push(finding);
        // Some checks take seconds: each result is shown at once.
        if (output === "table") write(findingText(finding));
      }
      if (output === "table")
        write(`${counts.fail} failed, ${counts.warn} warning${counts.warn === 1 ? "" : "s"}, ${counts.ok} ok\n`);
      else write(await renderOne({ object: "list", data: findings }, output));
      if (counts.fail > 0) exit(1);
    });
  withExamples(
    doctor,
    ["berth doctor", "before the first start, or when something is wrong"],
    ["berth doctor -o json", "for a program; exit code 1 where a check fails"],
  );
}
