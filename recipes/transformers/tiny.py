"""A language model of 16 numbers a word, its tokenizer and its data: nothing is downloaded."""

import datasets
import tokenizers
import torch
import transformers

torch.manual_seed(0)
rows = datasets.Dataset.from_dict({"text": ["one two three"] * 16})
words = tokenizers.Tokenizer(tokenizers.models.WordLevel(None, "[UNK]"))
words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
words.train_from_iterator(
    rows["text"], tokenizers.trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]", "[EOS]"])
)
special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[EOS]"}
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special)
config = transformers.GPT2Config(
    vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=2, eos_token_id=2
)
model = transformers.GPT2LMHeadModel(config)
