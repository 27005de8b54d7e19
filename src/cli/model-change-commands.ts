import type { Command } from "commander";
import { CommandError } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { outputOption, whole, withExamples, type Shown } from "./options.ts";

/** The commands that bring models, take them away, and give them to slots. */
export function addModelChangeCommands(model: Command, context: CommandContext): void {
  const catalog = model
    .command("catalog")
    .description("curated models and whether they fit; the service of this version has none yet")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { catalogTable } = await import("./models.ts");
      context.write(await catalogTable(await context.client(), output));
    });
  withExamples(catalog, ["berth model catalog", "of a service that has a catalogue"]);
  const pull = model
    .command("pull")
    .description("fetch a model; the service of this version cannot yet: put files into its models directory")
    .argument("<model>", "a name of the catalogue, or a source: hf://owner/repo/file.gguf, https://…")
    .option("--detach", "do not stay until it is there", false)
    .option("--accept-license", "take a licence that has to be accepted", false)
    .action(async (what: string, { detach, acceptLicense }: { detach: boolean; acceptLicense: boolean }) => {
      const { pull: run, pullBody } = await import("./pulls.ts");
      const following = { isDetached: detach, screen: context.screen };
      context.write(await run(await context.client(), pullBody(what, acceptLicense), following));
    });
  withExamples(pull, ["berth model pull qwen3-4b", "of a service that can, with its progress"]);
  const assign = model
    .command("assign")
    .description("have a slot hold a model")
    .argument("<ref>", "the model")
    .argument("<slot>", "name of the slot")
    .option("--wait", "go on until it is done, and say what is waited for")
    .option("--timeout <seconds>", "with --wait: how long at most", whole, 180)
    .action(async (ref: string, slot: string, { wait, timeout }: { wait?: true; timeout: number }) => {
      const { request } = await import("./slot-requests.ts");
      const { modelPath } = await import("./models.ts");
      const wanted = {
        slot,
        method: "POST",
        path: `${modelPath(ref)}/assign`,
        body: { slot },
        said: `swap to ${ref} requested`,
      } as const;
      const waiting = { timeoutSeconds: wait === true ? timeout : undefined, screen: context.screen };
      context.write(await request(await context.client(), wanted, waiting));
    });
  withExamples(assign, [
    "berth model assign qwen3-4b primary --wait",
    "the same as `berth slot swap primary qwen3-4b`",
  ]);
  const remove = model
    .command("rm")
    .description("take a model out of the registry")
    .argument("<ref>", "the model")
    .option("--force", "also where a slot holds it", false)
    .option("--files", "delete its files, too", false)
    .option("-y, --yes", "do not ask about the files")
    .action(async (ref: string, { force, files, yes }: { force: boolean; files: boolean; yes?: true }) => {
      if (files && yes !== true) {
        const { confirm } = await import("./terminal.ts");
        if (!process.stdin.isTTY) remove.error("error: --yes is needed where nobody can be asked");
        if (!(await confirm(`Delete the files of ${ref}?`, process.stdin, process.stderr)))
          throw new CommandError("cancelled", `model ${ref} stays`, undefined);
      }
      const { modelPath } = await import("./models.ts");
      const query = [...(force ? ["force=1"] : []), ...(files ? ["files=1"] : [])].join("&");
      const client = await context.client();
      await client.send("DELETE", `${modelPath(ref)}${query === "" ? "" : `?${query}`}`);
      context.write(`${ref}: removed${files ? ", with its files" : ""}\n`);
    });
  withExamples(remove, ["berth model rm qwen3-4b --files", "asks before it deletes files"]);
}
