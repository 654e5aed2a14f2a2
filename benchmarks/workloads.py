"""Deterministic workloads, the same for every system that is measured side by side.

gen.py lore N  -> {"book": <SillyTavern world book with N entries, 3 keys each>, "chat": [100 messages]}
gen.py macros  -> a 2 KB field with 20 macros
gen.py cbs     -> a 5 KB RisuAI status panel
gen.py build   -> a realistic SillyTavern chat build in the form of a build_chat vector's input:
                  2 KB card, 15 extra prompts, 200 lore entries, 300 messages, 16k context, gpt-4 tokens
"""

import json
import random
import sys

SYL = [
    "ar",
    "bel",
    "cor",
    "dun",
    "el",
    "fen",
    "gar",
    "hal",
    "ith",
    "jor",
    "kel",
    "lor",
    "mar",
    "nor",
    "oth",
    "pel",
    "quin",
    "ras",
    "sel",
    "tor",
    "ul",
    "ven",
    "wyr",
    "xan",
    "yor",
    "zel",
]
WORDS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "that",
    "it",
    "was",
    "he",
    "she",
    "with",
    "for",
    "on",
    "as",
    "at",
    "by",
    "from",
    "they",
    "we",
    "said",
    "looked",
    "walked",
    "toward",
    "old",
    "river",
    "stone",
    "light",
    "shadow",
    "winter",
    "market",
    "sword",
    "letter",
    "lantern",
    "quiet",
    "door",
    "road",
    "tower",
    "captain",
    "garden",
    "song",
]


def name(rng: random.Random) -> str:
    return "".join(rng.choice(SYL) for _ in range(3)).capitalize()


def lore(n: int) -> dict:
    rng = random.Random(7)
    names = [name(rng) + str(i % 97) for i in range(n * 3)]
    entries = {}
    for i in range(n):
        keys = names[3 * i : 3 * i + 3]
        keys[1] = f"{keys[1]} {rng.choice(WORDS)}"
        entries[str(i)] = {
            "uid": i,
            "key": keys,
            "keysecondary": [],
            "comment": f"entry {i}",
            "content": f"{keys[0]} is {' '.join(rng.choice(WORDS) for _ in range(30))}.",
            "constant": False,
            "vectorized": False,
            "selective": True,
            "selectiveLogic": 0,
            "addMemo": True,
            "order": 100 + i % 50,
            "position": i % 2,
            "disable": False,
            "excludeRecursion": True,
            "preventRecursion": True,
            "delayUntilRecursion": False,
            "probability": 100,
            "useProbability": True,
            "depth": 4,
            "group": "",
            "groupOverride": False,
            "groupWeight": 100,
            "scanDepth": None,
            "caseSensitive": None,
            "matchWholeWords": None,
            "useGroupScoring": None,
            "automationId": "",
            "role": None,
            "sticky": 0,
            "cooldown": 0,
            "delay": 0,
            "displayIndex": i,
        }
    chat = []
    for m in range(100):
        words = [rng.choice(WORDS) for _ in range(60)]
        if m % 5 == 0:
            words[10] = entries[str(rng.randrange(n))]["key"][0]
        chat.append({"name": "Ann" if m % 2 else "Bel", "is_user": bool(m % 2), "mes": " ".join(words) + "."})
    return {"book": {"entries": entries}, "chat": chat}


def macros() -> str:
    parts = []
    rng = random.Random(3)
    forms = [
        "{{char}}",
        "{{user}}",
        "{{if {{getvar::mood}}}}glad{{else}}sad{{/if}}",
        "{{getvar::mood}}",
        "{{upper::{{char}}}}",
        "{{reverse::abc}}",
        "{{// note}}",
        "{{newline}}",
        "{{trim}}",
        "{{setvar::n::3}}{{getvar::n}}",
    ]
    for i in range(20):
        parts.append(" ".join(rng.choice(WORDS) for _ in range(16)))
        parts.append(forms[i % len(forms)])
    return " ".join(parts)


def cbs() -> str:
    rows = []
    for i in range(40):
        rows.append(
            "{{#when::{{getvar::hp}}::>::%d}}HP row %d: {{? {{getvar::hp}} * 2 + %d}} / {{round::{{? 7 / 3}}}}{{:else}}down{{/when}}\n"
            "{{#each {{array::a::b::c}} as item}}- {{slot::item}} {{upper::x}}{{/each}}" % (i, i, i)
        )
    return "\n".join(rows)


def build() -> dict:
    rng = random.Random(11)
    text = lambda n: " ".join(rng.choice(WORDS) for _ in range(n))
    world = lore(200)["book"]
    names = [e["key"][0] for e in world["entries"].values()]
    chat = [{"name": "Lyra", "mes": "Good evening, {{user}}."}]
    for m in range(299):
        words = [rng.choice(WORDS) for _ in range(50)]
        if m % 7 == 0:
            words[5] = rng.choice(names)
        user = m % 2 == 0
        chat.append({"name": "Mira" if user else "Lyra", "is_user": user, "mes": " ".join(words) + "."})
    prompts = [
        {
            "identifier": f"p{i}",
            "name": f"p{i}",
            "system_prompt": False,
            "marker": False,
            "role": "system",
            "content": "{{char}} and {{user}}: " + text(40),
            "injection_position": i % 2,
            "injection_depth": i % 6,
            "injection_order": 100,
            "injection_trigger": [],
            "forbid_overrides": False,
        }
        for i in range(15)
    ]
    return {
        "user_name": "Mira",
        "type": "normal",
        "card": {
            "spec": "chara_card_v2",
            "spec_version": "2.0",
            "data": {
                "name": "Lyra",
                "description": "{{char}} " + text(200),
                "personality": text(30),
                "scenario": "{{user}} " + text(40),
                "first_mes": "Good evening, {{user}}.",
                "mes_example": "".join(
                    f"<START>\n{{{{user}}}}: {text(15)}\n{{{{char}}}}: {text(25)}\n" for _ in range(4)
                ),
                "creator_notes": "",
                "system_prompt": "",
                "post_history_instructions": "",
                "tags": [],
                "alternate_greetings": [],
                "character_version": "1",
                "extensions": {},
            },
        },
        "chat": chat,
        "world_info": {"big": world},
        "world_info_settings": {"world_info_depth": 8},
        "extra_prompts": prompts,
        "preset": {"openai_max_context": 16000, "openai_max_tokens": 500},
    }


if __name__ == "__main__":
    what = sys.argv[1]
    makers = {"lore": lambda: lore(int(sys.argv[2])), "macros": macros, "cbs": cbs, "build": build}
    print(json.dumps(makers[what]()))
