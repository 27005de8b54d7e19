import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { answerOf, request } from "../../shared/api.ts";
import { bodyOf, paths } from "./example.ts";
import { ModelField, TextField } from "./fields.tsx";
import { RunForm, useRun } from "./run.tsx";

const sizes = ["256x256", "512x512", "768x768", "1024x1024"] as const;

/** A picture of what a person describes. */
export function Images(): JSX.Element {
  const [model, setModel] = useState("");
  const [prompt, setPrompt] = useState("A harbour at dawn");
  const [size, setSize] = useState<string>("512x512");
  const example = { kind: "images", model, prompt, size } as const;
  const run = useRun(async (signal) => {
    const body = bodyOf(example);
    const { data } = await answerOf<{ data: readonly { b64_json: string }[] }>(paths.images, {
      method: "POST",
      body,
      signal,
    });
    const [first] = data;
    if (first === undefined) throw new Error("The answer has no picture. The slot's page has the log of its engine.");
    return { source: `data:image/png;base64,${first.b64_json}`, prompt };
  });
  return (
    <RunForm
      example={example}
      run={run}
      action="Draw"
      disabled={model === "" || prompt.trim() === ""}
      show={(drawn) => (
        <>
          <p>
            <img class="drawn" src={drawn.source} alt={drawn.prompt} />
          </p>
          <a href={drawn.source} download="picture.png">
            Save the picture
          </a>
        </>
      )}
    >
      <ModelField capability="image" value={model} onChange={setModel} />
      <TextField label="Prompt" rows={3} value={prompt} onInput={setPrompt} />
      <label>
        Size
        <select value={size} onChange={(event) => setSize(event.currentTarget.value)}>
          {sizes.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
    </RunForm>
  );
}

/** A text, spoken. */
export function Speech(): JSX.Element {
  const [model, setModel] = useState("");
  const [input, setInput] = useState("The ship lies at the quay.");
  const [voice, setVoice] = useState("af_heart");
  const example = { kind: "speech", model, input, voice } as const;
  const run = useRun(async (signal) => {
    const response = await request(paths.speech, { method: "POST", body: bodyOf(example), signal });
    return await response.blob();
  });
  return (
    <RunForm
      example={example}
      run={run}
      action="Speak"
      disabled={model === "" || input.trim() === ""}
      show={(sound) => <Player sound={sound} />}
    >
      <ModelField capability="speech" value={model} onChange={setModel} />
      <TextField label="Text" rows={3} value={input} onInput={setInput} />
      <TextField label="Voice" value={voice} onInput={setVoice} />
    </RunForm>
  );
}

function Player({ sound }: { readonly sound: Blob }): JSX.Element {
  const [source, setSource] = useState<string>();
  useEffect(() => {
    const url = URL.createObjectURL(sound);
    setSource(url);
    return () => URL.revokeObjectURL(url);
  }, [sound]);
  return (
    <>
      <p>
        {sound.size} bytes of {sound.type}
      </p>
      <audio controls aria-label="Speech" src={source} />
    </>
  );
}

/** What is said in a file. */
export function Transcription(): JSX.Element {
  const [model, setModel] = useState("");
  const [file, setFile] = useState<File>();
  const example = { kind: "transcription", model, fileName: file?.name ?? "talk.wav" } as const;
  const run = useRun(async (signal) => {
    if (file === undefined) throw new Error("Choose a file first.");
    const form = new FormData();
    form.set("model", model);
    form.set("file", file);
    const { text } = await answerOf<{ text: string }>(paths.transcription, {
      method: "POST",
      raw: { content: form },
      signal,
    });
    return text.trim();
  });
  return (
    <RunForm
      example={example}
      run={run}
      action="Transcribe"
      disabled={model === "" || file === undefined}
      show={(text) => (text === "" ? <p>No words were heard.</p> : <p class="said">{text}</p>)}
    >
      <ModelField capability="transcription" value={model} onChange={setModel} />
      <label>
        Sound file
        <input
          type="file"
          accept="audio/*,video/*"
          onChange={(event) => setFile(event.currentTarget.files?.[0] ?? undefined)}
        />
      </label>
    </RunForm>
  );
}
