from tavernkit.embeddings._embedder import Embedder as Embedder
from tavernkit.embeddings._embedder import LocalEmbedder as LocalEmbedder
from tavernkit.embeddings._embedder import OpenAIEmbedder as OpenAIEmbedder
from tavernkit.embeddings._index import IndexItem as IndexItem
from tavernkit.embeddings._index import Match as Match
from tavernkit.embeddings._index import VectorIndex as VectorIndex

__all__: list[str]
